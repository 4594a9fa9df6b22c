"""Java's own libraries, and a real Schema Registry, which tests ask beside ours."""
