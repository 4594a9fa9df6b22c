"""Results that are kept, the tables that are printed of them, and the picture."""
