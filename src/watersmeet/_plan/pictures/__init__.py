"""Topologies as pictures: what a picture shows, where it stands, and how it is written."""
