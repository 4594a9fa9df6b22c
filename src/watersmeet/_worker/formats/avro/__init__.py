"""Avro: schemas as types, values as Arrow columns and back."""
