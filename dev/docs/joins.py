"""What the page "Joins in the browser" loads: the oracle as a zip, the golden tables as cases, and Pyodide.

Everything is laid into `joins/` of the site. Without `.pyodide` (`fetch_pyodide.py`) the page says what is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from html import escape
from pathlib import Path

from dev.docs.fetch_pyodide import FILES, PYODIDE, present
from proof.cases import cases_of

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
MODULES = ("__init__.py", "cases.py", "golden.py", "recordings.py", "conformance_runners.py")
"""Of proof, what `proof.cases` imports beside the oracle."""
FIRST = (
    "stream_stream_current",
    "stream_stream_spurious",
    "stream_stream_old",
    "table_table_current",
    "table_table_old",
    "stream_table_current",
    "stream_table_old",
    "global_lookup",
    "foreign_key",
)
"""The golden pages with the tables of Kafka's own documentation, which the page lists before the others."""
_THE_SAME_DAY = (1980, 1, 1, 0, 0, 0)
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)


def put(site: Path, pyodide: Path = PYODIDE) -> None:
    """Lay all of it into a built site.

    Parameters
    ----------
    pyodide : where Pyodide has been fetched to, if it has.
    """
    folder = site / "joins"
    folder.mkdir(parents=True, exist_ok=True)
    pack(folder / "proof.zip")
    fetched = present(pyodide)
    for file in FILES if fetched else ():
        shutil.copyfile(pyodide / file, folder / file)
    told = {"pyodide": fetched, "pages": pages()}
    (folder / "about.json").write_text(json.dumps(told), encoding="utf-8")


def pack(path: Path) -> None:
    """The oracle and what runs cases with it, as a zip; the same files give the same bytes."""
    files = [ROOT / "proof" / name for name in MODULES] + sorted((ROOT / "proof" / "oracle").rglob("*.py"))
    with zipfile.ZipFile(path, "w") as packed:
        for file in files:
            about = zipfile.ZipInfo(file.relative_to(ROOT).as_posix(), _THE_SAME_DAY)
            packed.writestr(about, file.read_bytes(), zipfile.ZIP_DEFLATED)


def pages() -> list[dict[str, object]]:
    """Name, title and cases of each golden page."""
    files = sorted(GOLDEN.glob("*.md"), key=lambda file: (FIRST.index(file.stem) if file.stem in FIRST else 99, file))
    return [{"name": file.stem, "title": _title(file), "cases": cases_of(file)} for file in files]


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ")


def with_links(markdown: str, page: str) -> str:
    """The text of a golden page, with a link in each section that opens its case.

    >>> with_links("# x\\n\\n## a join\\n\\n- type: inner", "golden/x.md").split("\\n")[3]
    '<a href="../joins.html#golden=x/1">Open in “Joins in the browser”</a>'
    """
    name, numbers = Path(page).stem, iter(range(1, 1000))

    def linked(found: re.Match[str]) -> str:
        target = escape(f"../joins.html#golden={name}/{next(numbers)}")
        return f'{found[0]}\n<a href="{target}">Open in “Joins in the browser”</a>\n'

    return _SECTION.sub(linked, markdown)
