"""The handles: what a topology is written with, each on one node under construction."""
