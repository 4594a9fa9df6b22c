"""Several topics as one stream: what a user may name.

Vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.errors import TopologyError


def are_topics(source: Any) -> bool:
    """Whether a source is a list of names, also one without any."""
    return isinstance(source, list | tuple | set) and all(isinstance(each, str) for each in source)


def check_topics(names: Any, bootstrap: Any) -> Sequence[str]:
    """The names, each once and in an order of their own.

    Raises
    ------
    TopologyError : there are none, one is there twice, they have no order, or a history is to be of all of them.
    """
    if isinstance(names, set):
        raise TopologyError(
            f"Topics have an order, which decides between records of one time, and a set has none: {names!r:.80}.",
            hint=f"builder.stream({sorted(names)!r:.80}, ...)",
        )
    if not names:
        raise TopologyError("A stream needs a topic: builder.stream([]).", hint="builder.stream(['orders'], ...)")
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise TopologyError(f"One topic is named twice: {twice!r}.", hint="Name each topic once.")
    if bootstrap is not None:
        raise TopologyError(
            f"What a stream begins with is of one topic, and there are {len(names)}: bootstrap=....",
            hint="Read each topic with its own bootstrap=, then merge: one.merge(other).",
        )
    return list(names)
