"""The docs site: its menu, its reference, and what becomes of links and docstrings. `make docs` builds all of it."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import griffe
import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Section
from mkdocs.structure.pages import Page
from mkdocs.utils.yaml import yaml_load

import watersmeet as wm
import watersmeet.testing
from dev.docs import docstrings, hooks

ROOT = Path(__file__).resolve().parents[2]
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)


def test_the_reference_has_each_public_name_once_and_nothing_that_is_not_there():
    listed = [
        name for page in (ROOT / "docs" / "reference").glob("*.md") for name in DIRECTIVE.findall(page.read_text())
    ]
    public = {f"watersmeet.{name}" for name in wm.__all__} | {
        f"watersmeet.testing.{name}" for name in watersmeet.testing.__all__
    }
    # a module is called like the function in it; no program names the classes of what `start` and `sql` return
    also = {"watersmeet.session.session", "watersmeet._spark.query.query.Query"}
    also |= {"watersmeet.sql.sql", "watersmeet.sql.script.Views"}
    assert sorted(listed) == sorted((public - {"watersmeet.session", "watersmeet.sql"}) | also)


def test_links_that_lead_nowhere_end_the_build_with_an_error():
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "mkdocs build" in line)
    assert "--strict" in line
    # mkdocs does not count what it does not print
    assert "-q" not in line


def test_docstrings_become_lists_of_their_parameters():
    assert doctest.testmod(docstrings).failed == 0


def test_examples_in_docstrings_become_blocks_of_code():
    made = docstrings.as_markdown("Doubles.\n\n>>> double(1)\n2\n\nOnly numbers.")
    assert made == "Doubles.\n\n```python\n>>> double(1)\n2\n```\n\nOnly numbers."


def test_parameters_that_another_method_tells_are_shown_by_each():
    module = griffe.load("watersmeet.api.outputs", extensions=griffe.Extensions(docstrings.AsMarkdown()))
    shown = module["TableOutputs.to"].docstring.value
    assert "* `target`: a topic's name, a `TopicSink`, a `DatabaseTable`" in shown
    assert "* `key`, `value`: of a topic, the formats" in shown
    assert "**Raises**" in shown
    assert "as for" not in shown


def test_each_file_beside_docs_that_has_a_page_is_there():
    pages = hooks.outside()
    assert {"README.md", "CHANGELOG.md", "examples/orders_and_payments.py", "tests/golden/suppress.md"} <= set(pages)
    assert [path for path in pages if not (ROOT / path).is_file()] == []
    assert len(set(pages.values())) == len(pages)


def test_links_of_a_checkout_lead_to_pages_of_the_site():
    assert hooks.page_of("docs/deploy.md") == "deploy.md"
    assert hooks.page_of("docs/semantics") == "semantics/README.md"
    assert hooks.page_of("examples") == "examples/index.md"
    assert hooks.page_of("tests/golden/suppress.md") == "golden/suppress.md"
    assert hooks.page_of("src/watersmeet/session.py") is None


def separator_of_the_search():
    """What the site's search takes texts and questions apart by."""
    plugins = yaml_load((ROOT / "mkdocs.yml").read_text())["plugins"]
    return next(each["search"]["separator"] for each in plugins if "search" in each)


def test_a_name_is_found_by_search_where_it_stands_in_code():
    separator = separator_of_the_search()
    assert "read_state" in re.split(separator, 'wm.read_state(spark, "/data/orders")')
    assert re.split(separator, "Kafka 4.3 has KIP-213") == ["Kafka", "4.3", "has", "KIP", "213"]


@pytest.mark.parametrize(
    ("section", "file", "rank"),
    [
        ("How to", "soak.md", None),
        ("Start", "performance.md", hooks.BEHIND),
        ("Examples", "examples/orders_in_avro.md", hooks.BEHIND),
        (hooks.NOTES, "soak.md", hooks.LAST),
    ],
)
def test_the_search_ranks_programs_behind_tasks_and_engineering_notes_behind_all_other_pages(section, file, rank):
    config = load_config(str(ROOT / "mkdocs.yml"), plugins=[], hooks=[])
    assert any(hooks.NOTES in part for part in config.nav)
    page = Page("Soak", File(file, config.docs_dir, config.site_dir, use_directory_urls=False), config)
    page.parent = Section(section, [page])
    hooks.on_page_markdown("# Soak", page, config, Files([]))
    assert page.meta.get("search") == rank


def test_each_page_that_is_found_by_further_words_is_a_page_of_tasks():
    assert [page for page in hooks.SOUGHT if not (ROOT / "docs" / page).is_file()] == []
    assert [page for page in hooks.SOUGHT if page.startswith(hooks.LONG)] == []


def test_pictures_of_pages_outside_of_docs_are_found_where_the_site_has_them():
    assert hooks.with_pictures("![a](docs/pictures/orders.svg)", "index.md") == "![a](pictures/orders.svg)"
    assert hooks.with_pictures("![a](docs/pictures/orders.svg)", "golden/x.md") == "![a](../pictures/orders.svg)"


@pytest.mark.parametrize(
    "part", ['<script src="https://cdn/x.js"></script>', '<link href="//fonts/y" rel="stylesheet">']
)
def test_a_page_that_loads_something_from_elsewhere_is_noticed(part):
    assert hooks.LOADED.search(part)
    assert not hooks.LOADED.search('<script src="assets/x.js"></script><a href="https://cwiki/KIP-77">KIP-77</a>')


def test_the_comparison_is_dated_and_each_system_has_its_better_sides_and_sources():
    page = (ROOT / "docs" / "comparison.md").read_text()
    assert re.search(r"^As of \w+ 20\d\d\.", page, re.MULTILINE)
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert len(sections) == 10
    wanted = (r"\*\*Better there:\*\* ", r"\*\*Better here:\*\* ", r"Sources: \[[^\]]+\]\(https://")
    assert [(name, part) for name, text in sections.items() for part in wanted if not re.search(part, text)] == []
