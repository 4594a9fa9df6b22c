"""Plain Python functions of values (`wm.python`): in folds, and wherever a function of Columns makes a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watersmeet.aggregates.declared import Function
from watersmeet.names import answered


@dataclass(frozen=True)
class PythonFunction:
    """A plain Python function of values, called record by record; made by `python`.

    Parameters
    ----------
    function : of plain Python values.
    returns : type of its result, in Spark's words ("long", "struct<n: long>") or as a DataType; None: as the
        aggregate's type is known otherwise.
    """

    function: Function
    returns: Any = None

    if TYPE_CHECKING:  # for a type checker it is what it stands for: a function

        def __call__(self, *arguments: Any) -> Any: ...


@answered
def python(function: Function, returns: Any = None) -> PythonFunction:
    """A plain Python function where a function of Columns may stand, called once for each record.

    That is in folds (adder, subtractor, reducer, merger), and wherever a function of Columns makes a value, a key or a
    condition of a record: `stream.map_values(wm.python(str.upper, "string"))`. It runs in the level, or, beside a
    function that Spark evaluates, in Spark's Python workers. Where all its arguments are null it is not called, but in
    folds, and its result is null. `on_error` decides about errors that it raises.

    It sees values as Python has them: structs and maps are dictionaries, arrays are lists, nested ones too, and times
    are in UTC. Its result may be a Row, a tuple or pairs; it is converted to the value that state would return, so that
    it is the same in the next call and in the next batch. A value of another type is an error. It costs some
    microseconds for each record; Columns that the level can evaluate cost less. It gives the same for the same
    arguments, which it leaves as they are: an aggregate that it changes in place may stand behind other records.

    Parameters
    ----------
    function : takes what the Column function would take, as values.
    returns : type of its result, in Spark's words or as a DataType; of an aggregator this is the aggregate's type. Only
        folds and predicates may leave it out. Where a key and a value are wanted it is a struct of the two.

    Raises
    ------
    FunctionError : (of the call that it is given to) it takes other arguments, or `returns` is none of Spark's types.

    Examples
    --------
    >>> python(str.upper, "string").returns
    'string'
    """
    return PythonFunction(function, returns)
