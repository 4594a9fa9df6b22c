"""Writers of Kafka records and of files, as tasks run them."""
