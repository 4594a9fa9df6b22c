"""The results of `upper` and `lower` for each character, from Spark: its tables and language are those of its JVM.

The level's own are these, so that both make the same of a text. Where a language has rules of its own for neighbours
(Greek, Turkish, Azeri, Lithuanian), Spark keeps these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pyspark.sql import SparkSession

from watersmeet._engine.expressions.functions.letter_case import CASED, CASES, IGNORED

_PLANES = (0, 1, 2, 3, 14)
"""In the others no letters can be."""
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
    characters = [chr(c) for plane in _PLANES for c in range(plane << 16, plane + 1 << 16) if not 0xD800 <= c < 0xE000]
    characters.remove("\n")
    changed = [
        one + other for one, other in zip(characters, _made(spark, name, characters), strict=True) if one != other
    ]
    options = ((CASES, "\n".join(changed)),)
    if name == "Upper":
        return options
    alone = _made(spark, name, [each + "Σ" for each in characters])
    behind = _made(spark, name, ["A" + each + "Σ" for each in characters])
    cased = [one for one, found in zip(characters, alone, strict=True) if found[-1] == "ς"]
    either = [one for one, found in zip(characters, behind, strict=True) if found[-1] == "ς"]
    return (*options, (CASED, "".join(cased)), (IGNORED, "".join(sorted(set(either) - set(cased)))))


def _made(spark: SparkSession, name: str, texts: Sequence[str]) -> list[str]:
    # of values in SQL, Spark's planner evaluates it: the first job of a session takes seconds
    query = f"SELECT {name.lower()}(it) AS made FROM VALUES (:given) AS rows(it)"
    (row,) = spark.sql(query, args={"given": "\n".join(texts)}).collect()
    return str(row[0]).split("\n")
