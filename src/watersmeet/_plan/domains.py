"""The time domains of a plan, when it is known how its inputs are partitioned."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from watersmeet._plan.nodes import patterns_of
from watersmeet._plan.physical import Physical


def with_known_domains(topology: Physical, partitions: Mapping[str, int], begins: Collection[str]) -> Physical:
    """The plan with one time for all partitions wherever an operator's inputs are partitioned differently.

    Law 3: partitions have times of their own only where those of all inputs match. A DataFrame is one partition, and so
    is what an input begins with. Topics of a pattern may have any numbers of partitions, and others may join them.
    """
    physical, plan = topology, topology.plan
    for operator, kept in topology.timed:
        if not kept.domains:
            continue
        sources = [s for s in plan.sources if s.name in plan.ancestors[operator.node].union(kept.told_by)]
        counts = {1 if s.origin.topic is None else partitions.get(s.origin.topic) for s in sources}
        counts |= {1 for s in sources if s.name in begins}
        if len(counts) > 1 or patterns_of(sources):
            physical = physical.with_one_domain(operator.node)
    return physical
