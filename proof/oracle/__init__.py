"""The oracle: Kafka Streams' operators, one record at a time, in dictionaries.

Written from the semantics and proved against recordings of the real engine. It owns an independent answer to
"what must come out"; law: it imports nothing of the engine under test (the standard library alone), and it is
obviously right before it is fast.
"""

from proof.oracle.graph import EngineFailsError, Topology
from proof.oracle.records import Record, Result, Windowed
from proof.oracle.semantics import ROWS, Semantics
from proof.oracle.topologies import build
from proof.oracle.vectors.untold import NotBuildableError

__all__ = [
    "ROWS",
    "EngineFailsError",
    "NotBuildableError",
    "Record",
    "Result",
    "Semantics",
    "Topology",
    "Windowed",
    "build",
]
