"""Formats with a schema, alone or in a Schema Registry: what they are of, who reads and writes them."""
