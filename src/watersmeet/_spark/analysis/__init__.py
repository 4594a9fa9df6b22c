"""What Spark has understood of a Column: its plan as an expression of the engine, and the causes of its errors."""
