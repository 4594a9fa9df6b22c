"""The oracle: Kafka Streams' operators, one record at a time, in dictionaries.

Written from the semantics and proved against recordings of the real engine. It owns an independent answer to
"what must come out"; law: it imports nothing of the engine under test (the standard library alone), and it is
obviously right before it is fast.
"""

from watersmeet.testing.proof.oracle.graph import EngineFailsError, Topology
from watersmeet.testing.proof.oracle.records import Record, Result, Windowed
from watersmeet.testing.proof.oracle.semantics import ROWS, Semantics
from watersmeet.testing.proof.oracle.topologies import build
from watersmeet.testing.proof.oracle.vectors.untold import NotBuildableError

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
