"""Workloads: their data, their topologies on watersmeet, and how their results are read."""
