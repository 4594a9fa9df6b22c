"""The catalogue of errors has each class, and quotes messages that the program has; so does the runbook."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import watersmeet as wm
import watersmeet.errors
from tests.trees import tree_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "watersmeet"
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
CLASSES = {
    name: each
    for name, each in vars(watersmeet.errors).items()
    if isinstance(each, type) and issubclass(each, wm.WatersmeetError) and each is not wm.WatersmeetError
}
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
QUOTED = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def texts(tree: ast.Module) -> Iterator[str]:
    """All texts of a module, with a gap where something is formatted into them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


TEXTS = [text for path in sorted(PACKAGE.rglob("*.py")) for text in texts(tree_of(path.read_text(encoding="utf-8")))]


def is_said(message: str) -> bool:
    """Whether a text of the program has the message, whose `...` stands for anything."""
    parts = [part.strip(" .`") for part in re.split(r"\.\.\.", message)]
    wanted = re.compile(".*".join(re.escape(part) for part in parts if part), re.DOTALL)
    return any(wanted.search(text) for text in TEXTS)


def test_the_catalogue_has_each_class_of_error_once() -> None:
    assert sorted(SECTIONS) == sorted(CLASSES)
    assert set(CLASSES) <= set(wm.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_its_time_its_cause_its_cure_and_an_example(name: str) -> None:
    section = SECTIONS[name]
    assert [word for word in ("When", "Cause", "Cure") if f"**{word}**: " not in section] == []
    assert re.search(rf"^except wm\.{name} as error:|^wm\.{name}: ", section, re.MULTILINE)
    for shown in re.findall(rf"^wm\.{name}: (.*)$", section, re.MULTILINE):
        assert is_said(shown), shown
    base = CLASSES[name].__mro__[1].__name__
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `wm.{name}`"))
    assert (base == "WatersmeetError") or f"(a `{base}`)" in row


@pytest.mark.parametrize("page", ["errors.md", "runbook.md"])
def test_each_message_that_a_page_quotes_is_one_of_the_programs(page: str) -> None:
    quoted = [one for one in QUOTED.findall((ROOT / "docs" / page).read_text(encoding="utf-8")) if " " in one]
    assert len(quoted) > 10
    assert [message for message in quoted if not is_said(message)] == []


def test_a_message_that_no_text_has_is_found() -> None:
    assert is_said("The ... must return a condition, not ...")
    assert not is_said("The ... must return a rhyme, not ...")
