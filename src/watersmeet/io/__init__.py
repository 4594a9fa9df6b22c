"""The words for inputs and outputs: formats, topics, DataFrames, the connection to Kafka.

Vocabulary: frozen declarations, checked when they are made, on the user's own line. Spark's side checks the rest: that
a column exists, that its type can be a timestamp.
"""
