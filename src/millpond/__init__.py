"""millpond: the table-and-stream model of Kafka Streams on Spark."""
