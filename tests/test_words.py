"""The project's English, as far as a test can hold it (CONTRIBUTING.md, house rules; docs/glossary.md).

A phrase is listed if plain English has a shorter one and the match has no false alarms. Pages, docstrings and texts of
errors are searched; of code only the names of modules, classes and functions are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark.sql
import pyspark.sql.functions
import pytest

import watersmeet as wm
import watersmeet.errors
import watersmeet.testing

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "watersmeet"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
PAGES.append(ROOT / "CHANGELOG.md")
OWN_WORDS = 15
MOST_WORDS_OF_DOCS = 75_000

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
# Phrases that errors avoid besides: the reader is in a hurry.
OF_ERRORS = {
    "no such": re.compile(r"\bno such\b", re.IGNORECASE),  # Unknown format 'xml'.
    "is said": re.compile(r"\b(?:is|are|was|were|be) said\b"),  # Give either a or b, not both.
    "no ... but": re.compile(r"\b(?:is|returns|gives) no \w+ but\b"),  # must be a function, not 5.
    "goes on": re.compile(r"\bgoes on\b"),  # continues
    "whichever": re.compile(r"\bwhichever\b", re.IGNORECASE),
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


def phrases_in(text: str, phrases: Mapping[str, re.Pattern[str]] = PHRASES) -> list[str]:
    """The phrases of a text that break a rule, with their sentences."""
    found = [
        f"{name}: {sentence}"
        for sentence in sentences_of(text)
        for name, phrase in phrases.items()
        if phrase.search(sentence)
    ]
    clauses = [sentence for sentence in sentences_of(text) if WHAT.match(sentence)]
    return found + [f"What: {sentence}" for sentence in clauses if not sentence.endswith("?")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_phrase_that_plain_english_does_not_need(page: Path) -> None:
    assert phrases_in(page.read_text(encoding="utf-8")) == []


def test_the_docs_are_short_enough_to_be_read() -> None:
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").rglob("*.md")}
    longest = sorted(words, key=lambda page: -words[page])[:5]
    assert sum(words.values()) <= MOST_WORDS_OF_DOCS, [f"{words[page]} {page.relative_to(ROOT)}" for page in longest]


def test_the_rules_find_what_they_are_for() -> None:
    text = "There is no such format. The operator is told the time. A row whose key is null.\n\nWhat is left goes on."
    assert [found.split(":")[0] for found in phrases_in(text)] == ["there is no such", "is told", "whose", "What"]


def test_questions_headings_and_code_are_no_alarm() -> None:
    text = "## What it costs\n\n**What it costs.** 4 MB. What does it cost? `whose`\n\n```\nwhoever\n```\n"
    assert phrases_in(text) == []


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
ERRORS = {name for name, each in vars(watersmeet.errors).items() if isinstance(each, type)} & set(wm.__all__)


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring


def texts_of_errors(tree: ast.Module) -> Iterator[str]:
    """Texts within the calls of errors, with X in place of what is formatted into them."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in ERRORS:
            whole = [part for part in ast.walk(call) if isinstance(part, ast.JoinedStr)]
            inner = {id(each) for part in whole for each in part.values}
            for part in whole:
                yield "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in part.values)
            for each in ast.walk(call):
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in inner:
                    yield each.value


def broken_by(texts: Iterator[str], phrases: Mapping[str, re.Pattern[str]] = PHRASES) -> list[str]:
    return [found for text in texts for found in phrases_in(text, phrases)]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings_and_errors_have_no_such_phrase(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert broken_by(docstrings(tree)) == []
    assert broken_by(texts_of_errors(tree), PHRASES | OF_ERRORS) == []


def test_texts_of_errors_are_found_with_their_parts() -> None:
    tree = ast.parse("raise wm.ConfigError(f'{name} is told' + ' twice.', hint='Whoever asks.')")
    assert broken_by(texts_of_errors(tree)) == ["is told: X is told", "whoever: Whoever asks."]


def own_words() -> list[str]:
    section = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("## Words of watersmeet")[1]
    rows = re.findall(r"^\| (.+?) \|", section.split("\n## ")[0], re.MULTILINE)
    return [word for word in rows if word not in {"word", "---"}]


def test_the_project_has_few_words_of_its_own() -> None:
    assert 1 <= len(own_words()) <= OWN_WORDS, own_words()


# Words of public names that are no words of Kafka Streams' or Spark's API and not in the glossary: plain English, and
# names of other projects.
PLAIN = frozenset(
    {
        "backfill",
        "batch",
        "calendar",
        "call",
        "change",
        "changes",
        "changed",
        "corrupt",
        "dead",
        "encoding",
        "flow",
        "history",
        "info",
        "latest",
        "letter",
        "pattern",
        "served",
        "server",
    }
    | {
        "missing",
        "plan",
        "preview",
        "previous",
        "python",
        "registry",
        "rows",
        "snapshot",
        "text",
        "top",
        "watersmeet",
        "wrong",
    }
    | {"avro", "debezium", "protobuf"}
)


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]{2,}", name)}


def test_a_public_name_has_words_that_a_reader_knows() -> None:
    api = (ROOT / "tests" / "dev" / "kafka_streams_api.txt").read_text(encoding="utf-8")
    spark = " ".join([*dir(pyspark.sql), *dir(pyspark.sql.functions)])
    known = words_of(api) | words_of(spark) | PLAIN | words_of(" ".join(own_words()))
    public = {*wm.__all__, *watersmeet.testing.__all__}
    assert {name: left for name in public if (left := words_of(name) - known)} == {}


# Words with too many meanings to be searched for or guessed. A name needs a more exact one.
VAGUE = frozenset(
    {"within", "ways", "told", "seen", "settled", "shown", "kept", "light", "places", "letters", "reach", "stands"}
)
NAMED = ("src", "proof", "dev", "chaos", "simulation", "bench", "demo", "examples")


def vague_words_of(name: str) -> set[str]:
    """The vague words of a name; `letters` has one meaning in `dead_letters`."""
    plain = re.sub(r"dead_?letters", "", name, flags=re.IGNORECASE)
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", plain)} & VAGUE


def vague_names(tree: ast.Module) -> list[str]:
    """Names of classes and functions with a vague word; tests have sentences as names."""
    named = (node for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)))
    return [f"{node.lineno}: {node.name}" for node in named if vague_words_of(node.name)]


@pytest.mark.parametrize("folder", NAMED)
def test_a_class_and_a_function_have_names_that_can_be_searched(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    found = [f"{path.relative_to(ROOT)}:{name}" for path, tree in trees.items() for name in vague_names(tree)]
    assert found == []


def test_a_module_has_a_name_that_can_be_searched() -> None:
    files = [path for folder in (*NAMED, "tests") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path.relative_to(ROOT)) for path in files if vague_words_of(path.stem)] == []


def test_vague_words_are_found_in_names() -> None:
    tree = ast.parse(
        "class KeptTable:\n    def told_last(self): ...\ndef dead_letters_of(): ...\nasync def places(): ..."
    )
    assert vague_names(tree) == ["1: KeptTable", "4: places", "2: told_last"]
