"""The specs of joins of tables by their common key."""
