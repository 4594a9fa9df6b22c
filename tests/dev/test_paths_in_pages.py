"""A path of the tree that a page names is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "dev").glob("*.md")])
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\s]+)`")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|\w+\.py")
# Files that readers write, or that a run makes; each stands in a page as an example.
OF_READERS = frozenset({"app.py", "first.py", "test_clicks.py"})
RUN = re.compile(r"python -m ((?:bench|chaos|dev|proof|tests|watersmeet)(?:\.\w+)*)")
MODULE = re.compile(r"`((?:bench|proof|tests)(?:\.[a-z_]\w*)+)`")


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [*listed, *(line.removeprefix("src/watersmeet/") for line in listed)]


FILES = frozenset(tracked())
FOLDERS = frozenset(str(parent) for file in FILES for parent in Path(file).parents)
NAMES = frozenset(Path(file).name for file in FILES)


def missing(text: str) -> list[str]:
    """Paths in back-ticks that begin with a folder of the tree, and modules, that are not in the tree."""
    found = [word for word in QUOTED.findall(BLOCK.sub("", text)) if PATH.fullmatch(word)]
    of_tree = [word for word in found if "/" not in word or word.split("/")[0] in FOLDERS]
    modules = {*RUN.findall(text), *MODULE.findall(text)} - {"watersmeet"}
    return [word for word in of_tree if not exists(word)] + sorted(word for word in modules if not is_module(word))


def exists(path: str) -> bool:
    plain = path.rstrip("/")
    return plain in FILES or plain in FOLDERS or ("/" not in path and path in NAMES) or path in OF_READERS


def is_module(name: str) -> bool:
    path = name.replace(".", "/").removeprefix("watersmeet/")
    return f"{path}.py" in FILES or path in FOLDERS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_path_that_a_page_names_is_in_the_tree(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


def test_a_path_that_has_gone_is_found() -> None:
    assert missing("See `_engine/state/runs.py`, `docs/laws.md`, `tests/` and `level.py`, or `a/b`.") == []
    assert missing("See `_engine/gone.py`, `tests/gone` and `gone.py`.") == ["_engine/gone.py", "tests/gone", "gone.py"]


def test_a_module_that_has_gone_is_found() -> None:
    assert missing("`python -m proof.conformance --runner x`, `proof.oracle`") == []
    assert missing("`python -m proof.away`, `proof.gone`") == ["proof.away", "proof.gone"]


SECTION = re.compile(r"(docs/\w+\.md)#([\w-]+)")


def sections(page: str) -> set[str]:
    """The anchors of a page's headings, as the site and the repository make them."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_section_that_an_error_names_is_on_its_page() -> None:
    sources = sorted((ROOT / "src" / "watersmeet").rglob("*.py"))
    found = [link for source in sources for link in SECTION.findall(source.read_text(encoding="utf-8"))]
    assert ("docs/runbook.md", "kafka") in found
    assert [(page, anchor) for page, anchor in found if anchor not in sections(page)] == []
