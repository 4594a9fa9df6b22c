"""Keys: how they are hashed, compared, grouped and written as bytes."""
