"""The common settings of every packing and every level of a query, as one value that is sent to the workers."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._worker.wire.dead_letters import DeadLetterRoutes
from watersmeet._worker.wire.encoding import Encodings
from watersmeet._worker.wire.measures import Measures
from watersmeet._worker.wire.wire import Labels


@dataclass(frozen=True)
class Common:
    """The same value wherever rows of a query are packed.

    Parameters
    ----------
    labels : how (target, shard) are labelled.
    metrics : (node, reason) of each metric number.
    measures : what is counted beside dropped records; None: nothing.
    dead_letters : routes of the dead letters of rows that end; None: there are none.
    encodings : what is written of outputs before they have the rows.
    """

    labels: Labels
    metrics: tuple[tuple[str, str], ...]
    measures: Measures | None = None
    dead_letters: DeadLetterRoutes | None = None
    encodings: Encodings = field(default_factory=dict)
