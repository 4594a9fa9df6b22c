"""The file manager for S3: a class for Spark in Java, and how its jar is built."""
