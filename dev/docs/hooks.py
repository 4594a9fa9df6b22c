"""Hooks of the docs site (mkdocs.yml): pages that lie outside of docs/, and links as a checkout has them.

Pages link to one another by their places in the repository, so that they can be read there. The site shows docs/, and
beside it README, changelog, names of Kafka Streams, golden tables and examples; a link to any other file of the
repository becomes plain text.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from dev.docs import joins, kafka_streams
from dev.docs.llms import written

ROOT = Path(__file__).resolve().parents[2]
SINGLE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "dev/README.md": "development.md",
    "dev/docs/kafka_streams.tsv": "kafka_streams_names.md",
}
FOLDERS = {"tests/golden": ("*.md", "golden"), "examples": ("*.py", "examples")}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?![a-z]+:|#|/)([^()\s#]+)(#[^()\s]*)?\)")
IMAGE = re.compile(r"(!\[[^\[\]]*\])\(docs/([^()\s]+)\)")
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(https?:)?//[^>]*>")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
NOTES = "Engineering notes"
"""The section of the menu with proofs, measurements and decisions: the search ranks its pages behind all others."""
LAST = {"boost": 0.0001}  # a word of a title counts a thousand times one of the text
BEHIND = {"boost": 0.2}
"""Whole programs, figures and changes, in which most words stand: the search ranks them behind the pages of tasks."""
LONG = ("examples/", "performance.md", "changelog.md", "kafka_streams_names.md")
SOUGHT = {
    "aggregates.md": ["top N", "count", "sum", "count distinct"],
    "bad_records.md": ["dead letter", "late records", "null key"],
    "change.md": ["add a column"],
    "checkpoints.md": ["restart after a crash", "add a column", "increase partitions"],
    "coming_from_pyspark.md": ["pandas", "Python UDF"],
    "concepts.md": ["exactly once"],
    "databases.md": ["Delta", "Iceberg"],
    "deploy.md": ["Kubernetes"],
    "files.md": ["pandas", "Parquet"],
    "functions.md": ["Python UDF"],
    "recipes.md": ["top N per hour", "sessions"],
    "reference/formats.md": ["Schema Registry"],
    "reference/testing.md": ["test without Kafka"],
    "runbook.md": ["slow query, lag, memory", "restart after a crash", "stop a query"],
    "secrets.md": ["password"],
    "semantics/one_to_many.md": ["join two tables"],
    "semantics/stream_stream.md": ["join two streams"],
    "semantics/table_table.md": ["join two tables"],
    "semantics/windows.md": ["session window", "tumbling window"],
    "sql.md": ["SQL"],
    "state.md": ["read state"],
    "tune.md": ["slow query, lag, memory"],
    "tutorials/cdc.md": ["Debezium", "test without Kafka"],
    "watch.md": ["metrics", "Prometheus", "lag"],
    "why.md": ["why is this row"],
}
"""Words that readers type, beside those of a page's title: the search counts them like a title."""


def outside() -> dict[str, str]:
    """The page of the site for each file outside of docs/ that has one."""
    found = dict(SINGLE)
    for folder, (pattern, pages) in FOLDERS.items():
        files = sorted((ROOT / folder).glob(pattern))
        found |= {f"{folder}/{file.name}": f"{pages}/{file.stem}.md" for file in files if file.stem != "__init__"}
    return found


def page_of(path: str) -> str | None:
    """The page for a file or folder of the repository; None: it has none."""
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        return f"{inside}/README.md" if (ROOT / path / "README.md").is_file() else inside
    return outside().get(path) or next((f"{pages}/index.md" for at, (_, pages) in FOLDERS.items() if path == at), None)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put all pages of a folder where the menu names the folder alone (`golden/`); versions, if mike builds.

    A site that stands alone has no versions.json beside it, and must not ask for one.
    """
    config.nav = expanded(config.nav)
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/."""
    for path, page in outside().items():
        text = (ROOT / path).read_text()
        made = {".py": _example, ".tsv": kafka_streams.page}.get(Path(path).suffix, str)
        files.append(File.generated(config, page, content=made(text)))
    for folder, (_, pages) in FOLDERS.items():
        files.append(File.generated(config, f"{pages}/index.md", content=_index(folder, pages)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository become links to their pages; pictures are found where they lie."""
    if NOTES in [section.title for section in page.ancestors]:
        page.meta["search"] = LAST
    here = page.file.src_uri
    if here.startswith(LONG):
        page.meta["search"] = BEHIND
    if here in SOUGHT:
        page.meta["tags"] = SOUGHT[here]
    origin = next((path for path, name in outside().items() if name == here), f"docs/{here}")

    def linked(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        wanted = page_of(path)
        if wanted is not None:
            return f"[{text}]({posixpath.relpath(wanted, posixpath.dirname(here))}{anchor})"
        # a file that is not there stays a link, which mkdocs then finds broken
        return text if (ROOT / path).exists() else found[0]

    if origin.startswith("tests/golden/"):
        markdown = joins.with_links(markdown, here)
    parts = FENCE.split(with_pictures(markdown, here))
    return "".join(part if part.startswith("```") else LINK.sub(linked, part) for part in parts)


def with_pictures(markdown: str, page: str) -> str:
    """A page's text with its pictures of docs/, which is the site's own folder, where the page finds them there."""
    return IMAGE.sub(lambda found: f"{found[1]}({posixpath.relpath(found[2], posixpath.dirname(page))})", markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that loads anything from elsewhere, and put the page as Markdown beside it, for `llms.txt`."""
    found = LOADED.search(output)
    if found is not None:
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    beside = Path(config.site_dir) / page.file.src_uri
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text(page.markdown or "", encoding="utf-8")
    return output


def on_post_build(config: MkDocsConfig) -> None:
    """List the pages for programs that read (`llms.txt`), and add what the page of joins loads."""
    joins.put(Path(config.site_dir))
    text = written(config.site_name, config.site_description or "", config.nav or [], outside())
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")


def expanded(entries: Any) -> list[Any]:
    """The menu, with all pages of a folder where it names the folder alone."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("/"):
            found += _pages(entry)
        elif isinstance(entry, dict):
            ((title, below),) = entry.items()
            named = isinstance(below, str) and not below.endswith("/")
            found.append({title: below if named else expanded([below] if isinstance(below, str) else below)})
        else:
            found.append(entry)
    return found


def _pages(folder: str) -> list[str]:
    beside = [page for page in outside().values() if page.startswith(folder)]
    if beside:
        return [f"{folder}index.md", *beside]
    inside = sorted(f"{folder}{file.name}" for file in (ROOT / "docs" / folder).glob("*.md"))
    return sorted(inside, key=lambda page: not page.endswith("README.md"))


def _example(source: str) -> str:
    """The page of a program: its title, and the program."""
    return f"# {_title(source)}\n\n```python\n{source}```\n"


def _title(source: str) -> str:
    first = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].replace("\n", " ")
    return first.split(":")[0].rstrip(".")


def _index(folder: str, pages: str) -> str:
    """The page of a folder: what lies in it."""
    listed = [(path, page) for path, page in outside().items() if path.startswith(f"{folder}/")]
    lines = []
    for path, page in listed:
        text = (ROOT / path).read_text()
        title = _title(text) if path.endswith(".py") else text.splitlines()[0].lstrip("# ")
        lines.append(f"* [{title}]({posixpath.relpath(page, pages)}): `{path}`\n")
    heads = {"examples": "# Examples\n\nWhole programs; the tests run each and check what it gives.\n\n"}
    golden = (
        "# Golden tables\n\nRecords step by step with the results of each: pages to read, and tests. "
        "Each section opens in [Joins in the browser](../joins.md), where records can be changed.\n\n"
    )
    return heads.get(folder, golden) + "".join(lines)
