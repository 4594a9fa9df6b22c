"""The oracle of a topology of which not all is there at each time.

It is built of all operators that there ever are; those that are not there hear nothing, wait for no time and make no
record count as one that got somewhere. What becomes of those that are there is the oracle's alone (law 3: which topics
move whose time is found out anew with each change).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from proof.histories.blueprint import Blueprint
from proof.histories.kinds.registry import oracle_by_op
from proof.oracle.graph import Topology
from proof.oracle.source_time import SourceTime


class ChangedOracle:
    """A topology whose operators come and go.

    Parameters
    ----------
    whole : all operators.
    named : what an operator is called.
    """

    def __init__(self, whole: Blueprint, named: Callable[[int], str]) -> None:
        self.topology, steps = oracle_by_op(whole, named=named)
        # what an operator has put into the lists of others, or of the topology
        self._lists: dict[int, list[Any]] = {id(self.topology.timed): self.topology.timed}
        self._put: dict[int, list[tuple[int, Any]]] = {id(self.topology.timed): []}
        for number, nodes in enumerate(steps):
            self._note(number)
            for node in nodes:
                for each in (node._children, node.looked_up_by):
                    self._lists.setdefault(id(each), each)
                    self._put.setdefault(id(each), [])
            self._note(number)

    def go_on_with(self, numbers: Collection[int]) -> Topology:
        """The topology, of which these operators alone are there from now on."""
        for place, given in self._lists.items():
            given[:] = [each for number, each in self._put[place] if number in numbers]
        for timed in self.topology.timed:
            if isinstance(timed, SourceTime):
                timed.forget_topics()
        return self.topology

    def _note(self, number: int) -> None:
        for place, given in self._lists.items():
            known = self._put[place]
            known += [(number, each) for each in given[len(known) :]]
