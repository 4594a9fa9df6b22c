"""The words for inputs and outputs: formats, topics, DataFrames, the connection to Kafka.

Vocabulary: frozen declarations, checked when they are made, on the user's own line. What needs a schema (is
there such a column, can its type be a timestamp) is checked by Spark's side.
"""
