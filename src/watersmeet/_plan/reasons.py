"""Why rows end: the table of all reasons, for `query.drops`, for metrics and for dead letters (law 6).

Inputs end records (`_worker/ended_rows.py`), outputs do, and operators: on the way in (`ends` of a side,
`_engine/exchange.py`) or in the kernel (`Events.drops`). docs/bad_records.md has the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Reason:
    """Why a row ends."""

    name: str  # in `query.drops`, in metrics, and in the header of a dead letter
    text: str  # what the message of a dead letter says of the row
    policy: Literal["on_drop", "on_error"] = "on_drop"  # at an operator or output; at an input its own policies decide
    code: int = 0  # in the column `reason` of an input's rows, which is 0 where a row passes
    is_drop: bool = True  # whether it is counted: what says nothing new is not
    is_refusal: bool = False  # whether an input does not accept the record
    sent_by_input: bool = False  # whether an input obeys the builder's on_drop for it

    def __str__(self) -> str:
        return self.name


NEGATIVE_TIMESTAMP = Reason(
    "negative_timestamp", "its timestamp is before 1970", code=1, is_refusal=True, sent_by_input=True
)
UNDECODABLE = Reason("undecodable", "its key or value is not of the format", code=2, is_refusal=True)
IGNORED = Reason("ignored", "it says nothing new", code=3, is_drop=False)
FUNCTION_ERROR = Reason("function_error", "a function raises for it", "on_error", code=4, is_refusal=True)
INVALID_TIMESTAMP = Reason("invalid_timestamp", "its timestamp= gives no time", code=5, is_refusal=True)
UNENCODABLE = Reason("unencodable", "the format of the output cannot write it", "on_error")
NULL_KEY = Reason("null_key", "it has no key")
NULL_VALUE = Reason("null_value", "it has no value")
NULL_FOREIGN_KEY = Reason("null_foreign_key", "it has no foreign key")
NO_WINDOW = Reason("no_window", "no window has its time")
DUPLICATE = Reason("duplicate", "it is a duplicate")
EXPIRED_WINDOW = Reason("expired_window", "it is late: a window of its time is closed")
EXPIRED_WINDOW_RECORD = Reason("expired_window_record", "it is late: a window of the join that has its time is closed")
EXPIRED_VERSION = Reason("expired_version", "it is late: the history of the versioned table does not reach so far back")
OUT_OF_ORDER = Reason("out_of_order", "it is late: the versioned table has a newer change of its key")
DEAD_LETTER = Reason("dead_letter", "it is in a topic of dead letters, which has the reason", is_refusal=True)

REASONS = tuple(constant for constant in list(globals().values()) if isinstance(constant, Reason))
REFUSALS = frozenset(reason.name for reason in REASONS if reason.is_refusal)
BY_CODE = {reason.code: reason for reason in REASONS if reason.code}
