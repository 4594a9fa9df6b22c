"""What the mutants share: topologies are built anew, so that a mutant of the plan is seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proof.histories import check as package_check  # noqa: F401
from proof.histories.check import _topology


@pytest.fixture(autouse=True)
def _fresh_topologies() -> Iterator[None]:
    _topology.cache_clear()
    yield
    _topology.cache_clear()
