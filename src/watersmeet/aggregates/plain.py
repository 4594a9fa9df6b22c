"""Plain Python functions for folds (`wm.python`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet.aggregates.declared import Function
from watersmeet.names import answered


@dataclass(frozen=True)
class PythonFunction:
    """A plain Python function of a fold, called record by record; made by `python`.

    Parameters
    ----------
    function : of plain Python values.
    returns : type of its result, in Spark's words ("long", "struct<n: long>") or as a DataType; None: as the
        aggregate's type is known otherwise.
    """

    function: Function
    returns: Any = None


@answered
def python(function: Function, returns: Any = None) -> PythonFunction:
    """A plain Python function as adder, subtractor, reducer or merger, called once for each record.

    It sees values as Python has them: structs and maps are dictionaries, arrays are lists, nested ones too, and times
    are in UTC. What it gives may be a Row, a tuple or pairs; it is made into what it would be read back as, so that it
    is the same in the next call and in the next batch. What is not of the type is an error. It costs some microseconds
    for each record; Columns that the level can evaluate cost less. It gives the same for the same arguments, which it
    leaves as they are: an aggregate that it changes in place may stand behind other records.

    Parameters
    ----------
    function : takes what the Column function would take.
    returns : type of its result, in Spark's words or as a DataType; of an aggregator this is the aggregate's type.
    """
    return PythonFunction(function, returns)
