"""Where results leave: Kafka, files, functions of batches."""
