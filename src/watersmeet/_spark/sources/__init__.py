"""Topics and DataFrames as rows."""
