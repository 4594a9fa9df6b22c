"""Names and options that are not there, and what to write in their place.

Vocabulary. Whoever writes `table.leftJoin`, `stream.join(table, on="id")` or `TimeWindows("1 hour")` is told what to
write, in place of Python's bare "has no attribute" and "unexpected keyword argument".
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
