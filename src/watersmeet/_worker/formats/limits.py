"""The budgets of one record, one schema, or one answer of a registry: beyond them is a reason, not an error.

Writers of a topic choose the bytes. So their effects are bounded before code without bounds of its own runs: levels
before C code that recurses, values that take no bytes before they are made. All budgets count. None is a time: of the
same record every run says the same (law 2).
"""

from __future__ import annotations

import re

AVRO_LEVELS = 256
"""Records, arrays and maps within one another in a value of Avro: fastavro's code in C goes as deep as the value."""
JSON_LEVELS = 500
"""Objects and arrays within one another in a JSON text; Python's parser ends somewhere below 1,000."""
VALIDATED_LEVELS = 200
"""The same where it is looked at by all that its schema says: in Python, where a level takes several calls."""
SCHEMA_LEVELS = 300
"""The same in the text of a schema."""
SCHEMA_FIELDS = 100_000
"""Parts of a schema, each counted wherever it is used: definitions that use one another twice double at each step."""
EMPTY_VALUES = 100_000
"""Values of Avro in one record that take no bytes, such as the elements of an array of empty records."""
SCHEMA_REFERENCES = 1_000
"""Schemas that one of a registry refers to."""
ANSWER_BYTES = 16 << 20
"""One answer of a registry."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")


def nests_beyond(text: str, levels: int) -> bool:
    """Whether objects and arrays of a JSON text lie deeper within one another; of what is no JSON a guess.

    >>> nests_beyond('{"a": [1, "[[["]}', 2), nests_beyond("[[[", 2)
    (False, True)
    """
    if text.count("[") + text.count("{") <= levels:
        return False
    depth = 0
    for bracket in _NO_BRACKET.sub("", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > levels:
            return True
    return False
