"""Rows that last for a while: what `to_table` and `StreamsBuilder.table` put before the table. Handle layer."""

from __future__ import annotations

from typing import Any, Literal, get_args

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import ExpiryNode, Node
from watersmeet.errors import TopologyError
from watersmeet.windows import Duration
from watersmeet.windows.durations import positive_ms

Since = Literal["update", "record"]
"""From when on a row lasts: from the stream time at which its last update comes, or from that record's timestamp."""


def expiring(construction: Construction, node: Node, ttl: Duration | None, since: Since, **others: Any) -> Node:
    """The changes of a table with rows that expire after `ttl`, attached; without `ttl` the stream itself.

    Parameters
    ----------
    others : further options that were given, which do not go together with `ttl`; None: not given.

    Raises
    ------
    TopologyError : `ttl` is no duration of more than 0, `since` is neither, or another option was given.
    """
    if since not in get_args(Since):
        raise TopologyError(
            f"Unknown since={since!r:.80}.",
            hint="since='update', the stream time of its last update, or since='record', that record's timestamp.",
        )
    if ttl is None:
        if since != "update":
            raise TopologyError(f"since={since!r} needs ttl=: without it, rows do not expire.", hint="ttl='1 hour'.")
        return node
    length = positive_ms(ttl, "ttl", "ttl", "ttl='1 hour', or leave it out.")
    name = next((name for name, given in others.items() if given is not None), None)
    if name is not None:
        raise TopologyError(
            f"Give either ttl={ttl!r:.80} or {name}={others[name]!r:.80}, not both.",
            hint=f"Leave out {name}=, or ttl=; or have one table after the other: "
            f"stream.to_table(ttl=...).to_stream().to_table({name}=...).",
        )
    called = construction.name(None, ExpiryNode.stem, node.name)
    return construction.add(ExpiryNode(called, (node.name,), node.shape, ttl_ms=length, of_record=since == "record"))
