"""The handle's method, a function here: arguments checked, one node attached."""

from __future__ import annotations

from tests.operators.distinct.declaration import Distinct
from watersmeet.api.streams import KStream


def distinct(stream: KStream, *, name: str | None = None) -> KStream:
    """The records whose value is another than that of the record before of their key."""
    construction = stream._construction
    node = Distinct(construction.name(name, Distinct.stem), (stream.name,), stream._node.shape)
    return KStream(construction, stream._attach(node))
