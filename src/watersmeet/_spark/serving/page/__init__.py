"""The page on which a query is watched, and the numbers that it shows."""
