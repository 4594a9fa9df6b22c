"""Spark's analysis of a Column: its plan as an expression of the engine, and the cause of its errors."""
