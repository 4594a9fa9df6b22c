"""The results of `upper` and `lower` for each character, from Spark: its tables and language are those of its JVM.

The level's own are these, so that both make the same of a text. Where a language has rules of its own for neighbours
(Greek, Turkish, Azeri, Lithuanian), Spark keeps these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from watersmeet._engine.expressions.functions.letter_case import CASED, CASES, IGNORED
from watersmeet._spark.analysis.constants import text_of

_PLANES = (0, 1, 14)
"""In the others no letters with a case can be."""
_WITHOUT_CASE = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xF900))
"""Ideographs, syllables of Hangul, surrogates and places for private use: there will never be letters among them."""
_PROBES = {"Upper": "\u03af i\u0307 i", "Lower": "I \u00cc \u012e\u0301 \u0130"}
_USUAL = {"Upper": "\u038a I\u0307 I", "Lower": "i \u00ec \u012f\u0301 i\u0307"}
"""What all languages make of these but those with rules for neighbours."""


def case_options(name: str) -> tuple[tuple[str, str], ...]:
    """Options of a call of Upper or Lower for the level; none where the call is Spark's.

    Nothing runs but a constant's evaluation.
    """
    spark = SparkSession.getActiveSession()
    return () if spark is None else _options(spark, name)


@lru_cache(maxsize=4)
def _options(spark: SparkSession, name: str) -> tuple[tuple[str, str], ...]:
    if _made(spark, name, [_PROBES[name]]) != [_USUAL[name]]:
        return ()
    characters = _characters()
    changed = [
        one + other for one, other in zip(characters, _made(spark, name, characters), strict=True) if one != other
    ]
    options = ((CASES, "\n".join(changed)),)
    if name == "Upper":
        return options
    around = [before + each + "Σ" for before in ("", "A") for each in characters]
    found = _made(spark, name, around)
    alone, behind = found[: len(characters)], found[len(characters) :]
    cased = [one for one, found in zip(characters, alone, strict=True) if found[-1] == "ς"]
    either = [one for one, found in zip(characters, behind, strict=True) if found[-1] == "ς"]
    return (*options, (CASED, "".join(cased)), (IGNORED, "".join(sorted(set(either) - set(cased)))))


def _characters() -> list[str]:
    points = chain.from_iterable(range(plane << 16, plane + 1 << 16) for plane in _PLANES)
    without = chain.from_iterable(range(*each) for each in _WITHOUT_CASE)
    return [chr(point) for point in sorted({*points}.difference(without, [ord("\n")]))]


def _made(spark: SparkSession, name: str, texts: Sequence[str]) -> list[str]:
    function = {"Upper": F.upper, "Lower": F.lower}[name]
    return text_of(spark, function(F.lit("\n".join(texts)))).split("\n")
