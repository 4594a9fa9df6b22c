"""What runs a turn of a contender in processes of its own, and measures them."""
