"""An operator that millpond does not have: it holds each record back for a while."""
