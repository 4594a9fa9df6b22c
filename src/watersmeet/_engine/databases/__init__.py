"""Tables that are kept in databases, as far as it needs no database: columns, and the last change of each key."""
