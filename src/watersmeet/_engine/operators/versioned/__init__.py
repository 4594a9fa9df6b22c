"""The operators of tables that remember their past."""
