"""The fold of a plan as the engine runs it."""

from __future__ import annotations

from watersmeet._engine.aggregates.fold import FoldKernel
from watersmeet._engine.aggregates.functions import ArrayFold, CogroupedFunctions
from watersmeet._engine.aggregates.named import NamedFoldKernel
from watersmeet._plan import folds


def fold_of(fold: folds.Fold, owner: str = "", *, outlives: bool = False) -> FoldKernel:
    """The fold, with types of Arrow.

    Parameters
    ----------
    owner : name of the operator, as errors say it.
    outlives : whether a record for which a function raises changes nothing. Not where values are taken back, too: that
        of such a record would be taken from what never had it.
    """
    found = _fold_of(fold)
    found.owner = owner
    found.outlives = outlives and not fold.how.takes_back
    return found


def _fold_of(fold: folds.Fold) -> FoldKernel:
    if isinstance(fold.how, folds.FunctionFold):
        return ArrayFold(fold.how, fold.state)
    if isinstance(fold.how, folds.CogroupFold):
        return CogroupedFunctions(fold.how, fold.state)
    return NamedFoldKernel(fold.how, fold.state, fold.result)


def how_it_runs(fold: folds.Fold) -> str | None:
    """How a fold of functions is evaluated, as `describe` says it; None of aggregates by name."""
    return _fold_of(fold).how_it_runs
