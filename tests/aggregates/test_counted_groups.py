"""Groups that are deleted with their last row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.aggregates.aggregate_chance import TYPES
from tests.engine.aggregates.test_aggregates_taken_back import taken_back
from watersmeet.api.folds import named_groups


def counted(grouped: Any, aggregates: dict[str, Any]) -> Any:
    return named_groups(grouped, "count", aggregates)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 100), marks=pytest.mark.proof)])
def test_a_group_that_is_deleted_with_its_last_row_begins_anew_with_its_next(name: str, seeds: range) -> None:
    for seed in seeds:
        taken_back(name, seed, counted)
