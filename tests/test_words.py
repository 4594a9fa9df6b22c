"""The project's English, as far as a test can hold it (CONTRIBUTING.md, house rules; docs/glossary.md).

A phrase is listed if plain English has a shorter one and the match has no false alarms. Code is not searched.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "watersmeet"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
PAGES.append(ROOT / "CHANGELOG.md")
OWN_WORDS = 15

# Beside each phrase stands a plainer one.
PHRASES = {
    "there is no such": re.compile(r"\bthere (?:is|was|are|were) no such\b", re.IGNORECASE),  # Unknown format 'xml'.
    "is told": re.compile(r"\b(?:is|are|was|were|be|been|being) told\b(?! apart)"),  # gets, receives, knows
    "that which": re.compile(r"\bthat which\b"),  # the one that
    "whose": re.compile(r"\bwhose\b", re.IGNORECASE),  # of which, with; or two sentences
    "whoever": re.compile(r"\bwhoever\b", re.IGNORECASE),  # a user who; or the imperative
    "says so": re.compile(r"\bsays? so\b"),  # names it
    "reckon": re.compile(r"\breckon", re.IGNORECASE),  # compute
}
# A sentence with a clause as its subject: "What a task has left goes back." Questions may begin so, and so may headings
# and the bold words that begin a paragraph.
WHAT = re.compile(r"What [a-z]")
CODE = re.compile(r"^```.*?^```|`[^`]+`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[*#|-]|\d+\.) )|\|")
RUN_IN = re.compile(r"^\*\*[^*]+\*\*")
SENTENCE = re.compile(r"(?<=[.:?!;])(?:\*\*)? ")


def sentences_of(text: str) -> list[str]:
    """Sentences of a page or of a docstring, without code and headings, each in one line."""
    paragraphs = [part.strip() for part in PARAGRAPH.split(CODE.sub("`", text))]
    plain = [re.sub(r"\s+", " ", RUN_IN.sub("", part)) for part in paragraphs if not part.startswith("#")]
    return [sentence.lstrip("*-0123456789. ") for part in plain for sentence in SENTENCE.split(part)]


def phrases_in(text: str) -> list[str]:
    """The phrases of a text that break a rule, with their sentences."""
    found = [
        f"{name}: {sentence}"
        for sentence in sentences_of(text)
        for name, phrase in PHRASES.items()
        if phrase.search(sentence)
    ]
    clauses = [sentence for sentence in sentences_of(text) if WHAT.match(sentence)]
    return found + [f"What: {sentence}" for sentence in clauses if not sentence.endswith("?")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_phrase_that_plain_english_does_not_need(page: Path) -> None:
    assert phrases_in(page.read_text(encoding="utf-8")) == []


def test_the_rules_find_what_they_are_for() -> None:
    text = "There is no such format. The operator is told the time. A row whose key is null.\n\nWhat is left goes on."
    assert [found.split(":")[0] for found in phrases_in(text)] == ["there is no such", "is told", "whose", "What"]


def test_questions_headings_and_code_are_no_alarm() -> None:
    text = "## What it costs\n\n**What it costs.** 4 MB. What does it cost? `whose`\n\n```\nwhoever\n```\n"
    assert phrases_in(text) == []


def own_words() -> list[str]:
    section = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("## Words of watersmeet")[1]
    rows = re.findall(r"^\| (.+?) \|", section.split("\n## ")[0], re.MULTILINE)
    return [word for word in rows if word not in {"word", "---"}]


def test_the_project_has_few_words_of_its_own() -> None:
    assert 1 <= len(own_words()) <= OWN_WORDS, own_words()
