"""Testing aids: the oracle, recordings and conformance."""
