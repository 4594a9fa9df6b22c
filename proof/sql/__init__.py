"""Views in SQL beside a batch evaluation of the same text: random schemas, data, changes and queries."""
