"""What Spark alone does with formats: columns, values of a test, and what a registry is asked at the start."""
