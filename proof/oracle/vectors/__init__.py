"""Topologies from what recorded vectors tell."""
