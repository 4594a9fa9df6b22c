"""Names and options that are not there, and what to write in their place.

Vocabulary. `table.leftJoin`, `stream.join(table, on="id")` and `TimeWindows("1 hour")` fail with a hint that has the
right name, instead of Python's bare "has no attribute" and "unexpected keyword argument".
"""

from watersmeet.names.calls import answered, answered_as, answering, option_refused
from watersmeet.names.elsewhere import ELSEWHERE, beside
from watersmeet.names.missing import missing, public
from watersmeet.names.no_values import NoValue

__all__ = [
    "ELSEWHERE",
    "NoValue",
    "answered",
    "answered_as",
    "answering",
    "beside",
    "missing",
    "option_refused",
    "public",
]
