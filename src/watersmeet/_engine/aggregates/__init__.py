"""Folds: what an aggregate keeps of its records, and how each of them changes it."""
