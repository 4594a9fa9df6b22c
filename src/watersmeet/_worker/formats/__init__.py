"""Keys and values as bytes, and types as Spark, Arrow and Python have them."""
