"""The journal of a query that explains its tables: the input records of its batches, beside Spark's logs."""
