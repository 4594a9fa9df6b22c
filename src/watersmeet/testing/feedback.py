"""Outputs that come back as inputs, in the test driver: behind all that was piped before, as in Kafka Streams'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from watersmeet._plan.logical import Plan
from watersmeet.errors import TopologyError

ROUNDS = 1_000
Records = Callable[[str, str], Sequence[Any]]
"""All records of an output, in a case."""


class Feedback:
    """The records that have come back so far.

    Parameters
    ----------
    plan : of the topology.

    Attributes
    ----------
    rounds : so often results may come back and cause others.
    """

    def __init__(self, plan: Plan) -> None:
        self.rounds = ROUNDS
        self._inputs = {source.place.topic: source.input for source in plan.sources if source.place.topic}
        fed = (sink for sink in plan.sinks if sink.target.feeds_back)
        # a topic that a pattern matches is piped into under its own name
        self._outputs = {sink.output: self._inputs.get(sink.target.topic, sink.target.topic) for sink in fed}
        self.done: Counter[tuple[str, str]] = Counter()

    def pipe(self, records: Records, pipe: Callable[..., None], cases: Sequence[str]) -> bool:
        """Pipe what has not come back yet; False: there is nothing.

        Parameters
        ----------
        records : of an output and a case, all of them.
        pipe : the driver's.
        """
        more = False
        for case in cases:
            for output, to in self._outputs.items():
                found = records(output, case)
                for record in found[self.done[(case, output)] :]:
                    pipe(to, record.key, record.value, ts=record.ts, headers=record.headers or (), case=case)
                    more = True
                self.done[(case, output)] = len(found)
        return more

    def endless(self) -> TopologyError:
        """The error of results that go on coming back."""
        return TopologyError(
            f"feedback=True brings results back without end: after {self.rounds} rounds new ones still come.",
            given=", ".join(f"output {output!r} as input {to!r}" for output, to in self._outputs.items()),
            hint="Filter what is written with feedback=True, so that a record at some point causes none.",
        )
