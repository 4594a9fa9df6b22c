"""A transaction of Kafka that is tried again."""
