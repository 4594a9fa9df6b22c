"""A query in a notebook: a table of its status, and the page as a widget."""
