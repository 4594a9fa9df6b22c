"""Regular expressions by chance, and texts at which they are tried: most characters of both are of a few."""

from __future__ import annotations

import random

LETTERS = [
    "a",
    "b",
    "A",
    "1",
    "_",
    " ",
    ",",
    "-",
    "é",
    "\u0301",
    "\n",
    "\r",
    "\u0085",
    "\u2028",
    "日",
    "😀",
    "\u212a",
    "\u017f",
]
"""Among them ends of lines of Java's, and letters that are the same as ASCII's in another case."""
ATOMS = [
    "a",
    "b",
    "A",
    "1",
    " ",
    ",",
    "é",
    "日",
    r"\.",
    r"\-",
    ".",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"\n",
    "k",
    "s",
]
ATOMS += ["[ab]", "[^a]", r"[^\w]", r"[\d,]", "[a-c1-3]", r"[^\n]", "[_-]", r"[\]\[]", "[.]", "[é-日]", "[^ -~]"]
WRONG = [
    r"\b",
    r"\1",
    "[a[b]]",
    "[a&&b]",
    "(?<=a)",
    "😀",
    r"\p{L}",
    "[]a]",
    r"\R",
    "(?x)",
    "a**",
    r"\Z",
    "{",
    "(?s).",
    "*",
]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{2,}", "{0,2}?", "++", "*+", "?+"]


def pattern(r: random.Random, depth: int = 2) -> str:
    """A pattern, which Java may not understand, or others otherwise."""
    parts = [_piece(r, depth) for _ in range(r.randrange(1, 4))]
    if r.random() < 0.1:
        parts.insert(0, "^")
    if r.random() < 0.15:
        parts.append("$")
    if r.random() < 0.02:
        parts.append(r.choice(WRONG))
    return "".join(parts)


def _piece(r: random.Random, depth: int) -> str:
    if depth and r.random() < 0.35:
        opened = r.choice(["(", "(", "(?:", "(?:", "(?=", "(?!"])
        inner = "|".join(pattern(r, depth - 1) for _ in range(r.choice([1, 1, 2, 3])))
        found = f"{opened}{inner})"
    else:
        found = r.choice(ATOMS)
    return found + r.choice(QUANTIFIERS) if r.random() < 0.3 else found


def patterns(seed: int, count: int) -> list[str]:
    """So many patterns, each once."""
    r = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        made = pattern(r)
        found["(?i)" + made if r.random() < 0.1 and made.isascii() else made] = None
    return list(found)


def texts(seed: int, count: int) -> list[str | None]:
    """So many texts."""
    r = random.Random(seed)
    made = ["".join(r.choices(LETTERS, k=r.randrange(10))) for _ in range(count - 20)]
    made += ["ab" * r.randrange(5) + r.choice(LETTERS) + r.choice(["\r\n", "\n", ""]) for _ in range(19)]
    return [None, *made]
