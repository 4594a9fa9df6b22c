"""Users' functions that Arrow evaluates."""
