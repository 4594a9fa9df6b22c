"""The handle's method, a function here."""

from __future__ import annotations

from tests.operators.delayed.declaration import Delayed
from watersmeet.api.streams import KStream


def delayed(stream: KStream, wait: int, *, last: bool = False) -> KStream:
    """The records of a stream, each when time has passed its own by `wait` ms."""
    construction = stream._construction
    name = construction.name(None, Delayed.stem)
    node = Delayed(name, (stream.name,), stream._node.shape, wait=wait, last=last)
    return KStream(construction, stream._attach(node))
