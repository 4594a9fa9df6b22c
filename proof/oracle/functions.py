"""The functions of the recorded topologies: joiner, ref, payload, even, map.

Owns their exact text rules. Law: pure functions of text.
"""

from __future__ import annotations

from proof.oracle.records import Value


def text(value: Value) -> str:
    """How a value prints; an absent one prints as null."""
    return "null" if value is None else str(value)


def plus(left: Value, right: Value) -> str:
    """The joiner: left+right."""
    return f"{text(left)}+{text(right)}"


def all_plus(*values: Value) -> str:
    """The joiner of several values: left+right+third."""
    return "+".join(map(text, values))


def ref(value: Value) -> str | None:
    """What a value refers to: the text before the first bar, null when there is none."""
    head, bar, _ = ("", "", "") if value is None else str(value).partition("|")
    return head if bar and head else None


def payload(value: str) -> str | None:
    """The text after the first bar (everything when there is none), null when empty."""
    head, bar, tail = value.partition("|")
    return (tail if bar else head) or None


def named_window(value: str, size: int) -> tuple[int, int] | None:
    """The window of this size that begins at the number before the first bar; None where there is none."""
    start = ref(value)
    return (int(start), int(start) + size) if start is not None and start.isdigit() else None


def even(_key: object, value: str) -> bool:
    """Whether the last digit in the value is even; false without digits."""
    digits = [letter for letter in value if letter.isdigit()]
    return bool(digits) and int(digits[-1]) % 2 == 0


def mapped(value: str) -> str | None:
    """The mapper: null for what ends in 3, else m(value)."""
    return None if value.endswith("3") else f"m({value})"


def extracted_time(value: Value) -> int | None:
    """The time that a value tells behind the sign @; None where it tells none."""
    _, sign, time = ("", "", "") if value is None else str(value).partition("@")
    return int(time) if sign else None


def taken_time(policy: str | None, value: Value, own: int) -> int:
    """The time of a record, where its input takes the one that the value tells; -1: the record is left out.

    Parameters
    ----------
    policy : what becomes of records with a value that tells none, or one before 1970; None: all have their own.
    """
    if policy is None:
        return own
    told = extracted_time(value)
    if told is not None and told >= 0:
        return told
    return own if policy == "own" else -1
