"""What becomes of a checkpoint's tables, inputs and outputs when its topology is changed."""
