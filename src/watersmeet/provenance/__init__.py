"""Provenance of a table's row: which input records it comes from. `Topology.why` is the way in.

The records are those of the journal (`_spark.journal`). They run once more through the topology, in this process, with
and without single records.
"""
