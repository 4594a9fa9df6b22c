"""Stream time: how operators learn it, and what it lets go."""
