"""An operator that watersmeet does not have: what it takes to add one."""
