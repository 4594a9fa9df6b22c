"""A release: files that are the same bytes whoever builds them, and their trial without the clone."""
