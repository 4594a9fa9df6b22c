"""The page docs/gallery.md: all programs by subject. `python -m examples.gallery.page` writes it."""

from __future__ import annotations

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

{n} small programs, most of them after a tutorial of Confluent's or an example of Kafka's. Each file has a function
`topology`, the records that go in (`INPUTS`), and those that come out (`EXPECTED`). A test runs them all in the test
driver's own process, in less than a minute.

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
        parts.append(
            "\n".join(
                [f"## {heading}", "", "| program | what it does | it corresponds to |", "|---|---|---|", *rows, ""]
            )
        )
    return "\n".join(parts)


def _row(name: str) -> str:
    of, file = programs.program(name), name.replace(".", "/")
    return f"| [{name.split('.')[1]}](../examples/gallery/{file}.py) | {programs.title(of)} | {programs.source(of)} |"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
