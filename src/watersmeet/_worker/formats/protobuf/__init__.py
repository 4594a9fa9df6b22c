"""Protobuf: messages as types, values as Arrow columns and back."""
