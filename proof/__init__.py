"""What proves watersmeet: the oracle, recordings of Kafka Streams, random histories, the engine's own runner."""
