"""Real Debezium: captures of what it writes, and its engine for tests: see README.md."""
