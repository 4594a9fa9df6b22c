"""The rows that Spark shuffles between the parts of a query, with dead letters and counts."""
