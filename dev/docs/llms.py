"""`llms.txt` of the site: its pages in one list, each with its first sentence, for programs that read.

It follows llmstxt.org: a title, a summary, and lists of links below headings. The lists are the menu of mkdocs.yml. The
site has each page as Markdown beside the HTML, and the links lead there (`hooks`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dev.docs import kafka_streams

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```.*?^```|^:::.*?$|^\|.*?$|^#.*?$|^!\[.*?$|^[*-] .*?$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?])\s")


def written(name: str, summary: str, menu: list[Any], outside: Mapping[str, str]) -> str:
    """The text of the file.

    Parameters
    ----------
    name, summary : of the site.
    menu : sections, with all pages of their folders.
    outside : the page of each file that lies outside of docs/.
    """
    sources = {page: path for path, page in outside.items()}
    parts = [f"# {name}\n\n> {summary}\n"]
    for section in menu:
        ((title, below),) = section.items()
        lines = [f"- [{named}]({page})" + (f": {said}" if said else "") for named, page, said in _pages(below, sources)]
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _pages(entries: list[Any], sources: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Title, page and first sentence of each page below an entry of the menu."""
    for entry in entries:
        if isinstance(entry, str):
            text = _text(entry, sources)
            yield _title(text, entry), entry, first_sentence(text)
        else:
            ((title, below),) = entry.items()
            if isinstance(below, str):
                yield title, below, first_sentence(_text(below, sources))
            else:
                yield from _pages(below, sources)


def _text(page: str, sources: Mapping[str, str]) -> str:
    """The Markdown of a page, or the source of a program; nothing for a list that the site makes."""
    file = ROOT / sources.get(page, f"docs/{page}")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return kafka_streams.page(text) if file.suffix == ".tsv" else text


def _title(text: str, page: str) -> str:
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    if heading and not text.startswith('"""'):
        return heading[1]
    path = Path(page)
    return (path.parent.name if path.stem == "index" else path.stem).replace("_", " ").capitalize()


def first_sentence(text: str) -> str:
    r"""The first sentence of a page's own text.

    >>> first_sentence("# Tune\n\n| a | b |\n\nA batch has [a price](x.md). It is paid.\n")
    'A batch has a price.'
    >>> first_sentence('\"\"\"Orders: a table.\n\nMore.\n\"\"\"\n')
    'Orders: a table.'
    >>> first_sentence("# Ask\n\nTables can be asked:\n")
    'Tables can be asked.'
    """
    if text.startswith('"""'):
        return " ".join(text[3:].split("\n\n")[0].split()).removesuffix('"""')
    plain = LINK.sub(r"\1", BLOCK.sub("", text)).replace("**", "").strip()
    found = END.split(" ".join(plain.split("\n\n")[0].split()))[0]
    return f"{found[:-1]}." if found.endswith(":") else found
