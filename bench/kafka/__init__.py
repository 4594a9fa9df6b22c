"""Kafka to Kafka, beside Kafka Streams and others: topics, contenders, progress, and whether results agree."""
