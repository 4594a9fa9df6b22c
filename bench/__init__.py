"""Benchmarks: watersmeet beside Kafka Streams, Quix Streams and one group per key, as ratios of one run."""
