"""Records histories of the real Kafka Streams: see README.md."""
