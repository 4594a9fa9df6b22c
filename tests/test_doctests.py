"""The examples in the package's docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "watersmeet"
WITH_EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", [name_of(path) for path in WITH_EXAMPLES])
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_examples_are_run() -> None:
    parsed = [doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8")) for path in WITH_EXAMPLES]
    skipped = [doctest.SKIP in example.options for examples in parsed for example in examples]
    assert len(skipped) > 10
    assert sum(skipped) <= len(skipped) // 4
