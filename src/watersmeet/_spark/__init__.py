"""Where a topology runs: sessions, frames, checkpoints, sources, sinks and queries of Spark."""
