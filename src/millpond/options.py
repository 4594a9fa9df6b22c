"""Interim: formats and origins (to be replaced)."""
from __future__ import annotations
from dataclasses import dataclass
from typing import Any

@dataclass(frozen=True)
class Format:
    kind: str

@dataclass(frozen=True)
class Topic:
    name: str
    key: Any = None
    value: Any = None
    def __post_init__(self) -> None:
        for n in ("key","value"):
            v=getattr(self,n)
            if isinstance(v,str): object.__setattr__(self,n,Format(v))

@dataclass(frozen=True)
class Rows:
    frame: Any

@dataclass(frozen=True)
class TopicSink:
    name: str

@dataclass(frozen=True)
class Writer:
    format: str

@dataclass(frozen=True)
class ForeachBatch:
    function: Any
