"""A deterministic simulation of drivers on one checkpoint: seeds instead of races (docs/faults.md)."""
