"""What README and docs say in code is run: every block of Python, every import, every name of watersmeet.

A block runs as it stands, but for what needs a cluster: the session is the tests' own, and a start goes as far
as the check of its arguments. A block of text is what the blocks of its page print; a picture is that of the topology
which they leave behind under its name (`python -m tests.spark.session.write_pictures` draws all of them anew).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet._spark.query.start import StartOptions
from watersmeet.testing.driver import TopologyTestDriver

ROOT = Path(__file__).resolve().parents[3]
# tests/examples/test_tutorials.py follows the tutorials
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "tutorials")]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\(((?:docs/)?pictures/(\w+)\.svg)\)")
NAME = re.compile(r"`((?:wm|watersmeet)(?:\.[A-Za-z]\w*)+)")
EXAMPLE = re.compile(r"::\n\n((?:    .*\n|\n)+)")
DOCUMENTED = ["watersmeet", "watersmeet.testing.driver"]
COMMAND = re.compile(r"python -m (watersmeet[\w.]*)")


class Here(ast.NodeTransformer):
    """Puts what is at hand in place of what needs a cluster."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if called == "session":
            node.func = ast.Name("_session", ast.Load())
        elif called == "start" and isinstance(node.func, ast.Attribute):
            node.args.insert(0, node.func.value)
            node.func = ast.Name("_start", ast.Load())
        elif called == "plan_change":
            node.func = ast.Name("_plan_change", ast.Load())
        elif called == "awaitTermination":
            return ast.Constant(None)
        return ast.copy_location(node, node)


def run(page: Path, blocks: list[str], spark: SparkSession) -> dict[str, Any]:
    """The names that the page's blocks leave behind, run one after the other."""

    def session(*given: Any, **options: Any) -> SparkSession:
        inspect.signature(wm.session).bind(*given, **options)
        return spark

    def start(*given: Any, **options: Any) -> None:
        bound = inspect.signature(wm.Topology.start).bind(*given, **options).arguments
        StartOptions(**{name: value for name, value in bound.items() if name not in ("self", "spark", "checkpoint")})

    names: dict[str, Any] = {"spark": spark, "_session": session, "_start": start}
    names["_plan_change"] = lambda *given, **options: inspect.signature(wm.plan_change).bind(*given, **options)
    for block in blocks:
        tree = ast.fix_missing_locations(Here().visit(ast.parse(block)))
        exec(compile(tree, str(page), "exec"), names)
    return names


def pictures(page: Path, names: dict[str, Any]) -> dict[Path, str]:
    """The file and the content of each picture of a page, from the topologies that its blocks leave behind."""
    found = PICTURE.findall(page.read_text())
    return {page.parent / path: names[name].to_svg(levels=True) for path, name in found}


def resolve(name: str) -> Any:
    """What a dotted name means; `wm` is watersmeet."""
    path = name.split(".")
    found: Any = wm
    for depth, part in enumerate(path[1:], start=2):
        if not hasattr(found, part):
            importlib.import_module(".".join(["watersmeet", *path[1:depth]]))
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_import_and_name_of_a_page_is_what_it_says(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    names = run(page, BLOCK.findall(text), spark)
    printed = capsys.readouterr().out
    assert [shown for shown in PRINTED.findall(text) if shown not in printed] == []
    for picture, drawn in pictures(page, names).items():
        assert picture.read_text() == drawn, f"{picture.name}: draw it anew"
    for name in NAME.findall(text):
        resolve(name)
    for module in COMMAND.findall(text):
        assert importlib.util.find_spec(module.rstrip(".")) is not None, module


@pytest.mark.parametrize("module", DOCUMENTED)
def test_the_example_of_a_modules_docstring_runs(module: str, spark: SparkSession) -> None:
    docstring = (inspect.getdoc(importlib.import_module(module)) or "") + "\n"
    blocks = [textwrap.dedent(block) for block in EXAMPLE.findall(docstring[docstring.index("Example::") :])]
    names = run(Path(module), blocks, spark)
    assert "builder" in names
    if "customers" in names:
        assert names["customers"].is_empty()  # the example has read it


def test_the_readmes_topology_gives_what_it_says(spark: SparkSession) -> None:
    page = ROOT / "README.md"
    driver = TopologyTestDriver(run(page, BLOCK.findall(page.read_text()), spark)["topology"], spark)
    driver.pipe("orders", 1, 100.0, ts=1)
    driver.pipe("payments", 1, 30.0, ts=2)
    driver.pipe("payments", 1, 100.0, ts=3)
    assert [(record.ts, record.key, record.value) for record in driver.read("open-orders")] == [
        (1, 1, 100.0),
        (2, 1, 70.0),
        (3, 1, None),
    ]


def test_the_readme_makes_its_session_before_its_topology() -> None:
    """A reader's process has no session yet, as that of the tests has, and functions cannot be read without one."""
    code = "".join(BLOCK.findall((ROOT / "README.md").read_text()))
    assert code.index("wm.session(") < code.index("wm.StreamsBuilder(")


def test_a_name_that_is_not_there_is_found() -> None:
    with pytest.raises((AttributeError, ImportError)):
        resolve("watersmeet.testing.TopologyTestDrivr")
    assert resolve("watersmeet.testing.TopologyTestDriver") is TopologyTestDriver
