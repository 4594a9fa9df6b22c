"""The notebooks among the examples show what stands in them, when they are run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.examples import notebook

MOST_LINES_OF_CODE = 80
SPENDERS = [("ann", "Anchorage", 35.0, 2), ("bob", "Bobcaygeon", 20.0, 2)]


def shown(made: Any) -> list[str]:
    """What each cell of code shows: HTML where it has any, else text."""
    return ["".join(map(_text, cell["outputs"])) for cell in made.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    data = output.get("data", {})
    return str(data.get("text/html") or data.get("text/plain") or output.get("text", ""))


def rows(text: str) -> list[tuple[Any, ...]]:
    """The rows of a DataFrame that was shown."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][1:]
    return [tuple(cell.strip() for cell in line) for line in lines]


def test_a_notebook_shows_its_topology_its_query_and_its_results_as_they_stand_in_it(tmp_path: Path) -> None:
    written, found = shown(notebook.read(notebook.QUERY)), shown(notebook.ran(notebook.QUERY, tmp_path))
    _, _, picture, query, latest, numbers, state = found
    assert "<svg" in picture
    for name in ("orders", "customers", "agg-orders", "spent", "spenders-by-city"):
        assert f">{name}</text>" in picture
    assert ">ended, " in query
    assert "dropped 1 at agg-orders</th>" in query
    assert rows(latest) == [tuple(map(str, row)) for row in SPENDERS]
    assert numbers.startswith("1 dropped at agg-orders: null_key\n")
    assert rows(state) == [(key, str(total), str(count)) for key, _, total, count in SPENDERS]
    # Spark may tell of the last batch a moment later
    assert [text for text in found if text != query] == [text for text in written if ">ended, " not in text]


def test_a_notebook_goes_from_files_to_a_plot_as_it_stands_in_it(tmp_path: Path) -> None:
    made = notebook.ran(notebook.FILES, tmp_path)
    found = shown(made)
    assert found == shown(notebook.read(notebook.FILES))
    _, _, joined, sessions, best, plot = found
    cells = [re.findall("<td>(.*?)</td>", text) for text in (joined, sessions, best)]
    assert [len(each) for each in cells] == [3 * 5, 8 * 5, 4 * 2]
    # the files lie in another order than their hours, and no hour is lost
    assert cells[2][::2] == [f"2026-11-30 {hour:02}:00:00" for hour in (8, 9, 10, 11)]
    assert "Axes" in plot
    assert "image/png" in made.cells[-2]["outputs"][-1]["data"]


@pytest.mark.parametrize("path", [notebook.QUERY, notebook.FILES], ids=lambda path: path.stem)
def test_a_notebook_is_short(path: Path) -> None:
    code = [line for cell in notebook.read(path).cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert len(code) < MOST_LINES_OF_CODE
