"""JSON Schema: schemas as types, and values as JSON texts that their schema takes."""
