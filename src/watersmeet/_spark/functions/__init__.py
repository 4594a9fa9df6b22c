"""Users' functions as Spark Columns."""
