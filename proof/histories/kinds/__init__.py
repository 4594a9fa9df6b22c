"""What can be drawn: each kind of operator, its functions, and how the oracle and a builder make it."""
