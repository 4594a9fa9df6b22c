"""NEXMark, an auction site as a benchmark: a seeded generator, twelve queries, and SQL over the same events."""
