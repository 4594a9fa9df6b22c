"""A plan over DataFrames: stages, exchanges, levels."""
