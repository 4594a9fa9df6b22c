"""An operator that millpond does not have: what it takes to add one."""
