"""Random histories: random topologies, records and batches, through the engine and through the oracle.

Owns the search for differences that nobody thought of. A blueprint (`blueprint`) is one random topology; a
case (`case`) is a blueprint with records, batches and shards; `kinds` says of each operator how the handles
and the oracle build it; `check` runs a case and compares; `shrink` makes a failing case small. The command is
`python -m proof.histories`. Law: a case is a pure function of (seed, number), so these two are
enough to see a failure again.
"""

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case, Input
from proof.histories.check import Difference, check
from proof.histories.draw import case_of
from proof.histories.shrink import shrink

__all__ = ["Blueprint", "Case", "Difference", "Input", "Op", "Ref", "case_of", "check", "shrink"]
