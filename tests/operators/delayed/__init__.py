"""An operator that watersmeet does not have: it holds each record back for a while."""
