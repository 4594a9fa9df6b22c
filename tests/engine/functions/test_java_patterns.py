"""Which regular expressions of Java's are read as Python's, and which are left to Spark."""

from __future__ import annotations

import pytest

from watersmeet._engine.expressions.regular import pattern_of

TAKEN = [r"\W+", r"(\d+)-(\d+)", "^[a-z]+$", r"\s*,\s*", "(?i)foo|bar", "a(?=b)", "[a-]", r"[\w.]+@[\w.]+", "a{2,3}?b"]
LEFT = [r"\bfoo", r"(a)\1", "[a[b]]", "[a-z&&[b]]", "(?<=a)b", "(?<n>a)", r"\p{L}", r"\Qa\E", "(a*)*", "(?:a|)+", "a**"]
LEFT += [
    "[]a]",
    "(?x)a b",
    "(?s).",
    r"\R",
    r"\Z",
    "{",
    "x{",
    "(",
    ")",
    "[a",
    "😀",
    "[a-\uffff]",
    r"[\d-x]",
    "",
    "(?=a)*",
]
LEFT += [r"\v", r"\h", r"\x41", r"\07", "a{,2}", "^*", "(?i)é", r"\é", "[^]", "[&&a]"]


@pytest.mark.parametrize("pattern", TAKEN)
def test_what_both_understand_alike_is_taken(pattern: str) -> None:
    assert pattern_of(pattern) is not None


@pytest.mark.parametrize("pattern", [each for each in LEFT if each])
def test_what_java_understands_otherwise_or_not_at_all_is_left_to_it(pattern: str) -> None:
    assert pattern_of(pattern) is None


def test_a_dot_and_a_dollar_know_the_ends_of_lines_that_java_knows() -> None:
    dot, dollar = pattern_of("."), pattern_of("a$")
    assert dot is not None
    assert dollar is not None
    assert not any(dot.compiled.search(end) for end in "\n\r\u0085\u2028\u2029")
    assert all(dollar.compiled.search("a" + end) for end in ("", "\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029"))
    assert not any(dollar.compiled.search(text) for text in ("a\n\n", "ab", "a\v"))
    found = dollar.compiled.search("a\r\n")
    assert found is not None
    assert found.end() == 1


def test_a_pattern_says_how_much_it_matches_at_least() -> None:
    patterns = {"a*": 0, "a|bc": 1, "(ab){2,3}c?": 4, "^$": 0, "a(?=bc)": 1, "": 0}
    assert {text: found.least for text in patterns if (found := pattern_of(text)) is not None} == patterns
