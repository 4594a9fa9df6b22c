"""The engine: numpy and pyarrow alone; what each operator does to a batch (law 7)."""
