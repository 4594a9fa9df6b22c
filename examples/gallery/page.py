"""The page docs/gallery.md: all programs by subject. `python -m examples.gallery.page` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from examples.gallery import programs

SUBJECTS = {
    "filtering_and_mapping": "Filter and map",
    "aggregating": "Aggregate",
    "windows": "Windows",
    "joins": "Joins",
    "tables": "Tables",
    "processors": "Processors",
    "topics_and_time": "Topics and time",
    "errors": "Errors",
    "formats": "Formats",
}
"""Folders, and the headings of the page."""
BEGINNING = """# Gallery

{n} small programs: those of Kafka's and Confluent's tutorials and books, and others. Each file names its tutorial,
and has a function `topology`, the records that go in (`INPUTS`), and those that come out (`EXPECTED`).

```
python -m examples.gallery                          # lists the programs
python -m examples.gallery aggregating.word_count   # shows what one gives
```

[The examples](../examples) beside them run on Spark and write to files, databases and Kafka.
"""
PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"


def written() -> str:
    """The page's text."""
    names = programs.names()
    parts = [BEGINNING.format(n=len(names))]
    for folder, heading in SUBJECTS.items():
        rows = [_row(name) for name in names if name.startswith(f"{folder}.")]
        parts.append("\n".join([f"## {heading}", "", *rows, ""]))
    return "\n".join(parts)


def _row(name: str) -> str:
    of, file = programs.program(name), name.replace(".", "/")
    title = re.split("[:;] ", programs.title(of))[0].rstrip(".")
    return f"* [{name.split('.')[1]}](../examples/gallery/{file}.py): {title}."


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
