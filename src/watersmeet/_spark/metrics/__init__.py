"""How a running query goes: its numbers, a line in the log for each batch, Prometheus, a line in a terminal."""
