"""Benchmarks: watersmeet beside Kafka Streams, Quix Streams and one group per key, as ratios of one run.

`run.py` is `make bench`, `turn.py` one turn of a contender on Spark, `beside.py` two checkouts by turns. `workloads`
has data and topologies, `kafka` the way from topic to topic beside others, `measuring` what watches processes,
`reports` tables and the picture, `figures` results that were kept, `nexmark` a benchmark of its own, `studies`
measurements of single pieces.
"""
