"""The page of the functions that run in the level names those that have a kernel, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from watersmeet._engine.expressions.evaluate import FAMILIES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "functions.md"


def test_the_page_of_functions_names_each_class_that_has_a_kernel():
    # the first table of the page; another one names the most used functions
    text = PAGE.read_text().partition("## ")[0]
    rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("| ")]
    listed = [name for row in rows[1:] for name in re.findall(r"`(\w+)`", row.split("|")[3])]
    assert sorted(listed) == sorted(name for family in FAMILIES for name in (*family.kernels, *family.lazy))
