"""The fault bench: joins from Kafka to Kafka, exactly once, killed while data flows, and a judge of what is left.

`make chaos KILLS=1000`; docs/faults.md says what was run and what came of it.

__main__   the command: rounds, progress, resuming, the table
    round      one round: one join, one checkpoint, one kill after the other, the verdict
    strikes    who can be killed, and when
    hooks      what the killed processes load, so that they die at the named moment
    turn       the process that runs the topology
    feed       the records, while they flow
    joins      the joins, as handles and as the oracle has them
    judge      what should have come out, and what is lost, doubled or out of order
    report     the table
"""
