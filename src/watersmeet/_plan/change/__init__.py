"""The fate of a checkpoint's tables, inputs and outputs under a changed topology."""
