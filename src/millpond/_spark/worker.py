"""What millpond does for the Python processes that Spark runs its functions in.

Called by the functions that `compile` gives to Spark, at their first row in a process.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Once per process: what has been imported is no longer looked through for garbage.

    Spark's worker collects garbage after every task. With pandas, pyarrow and Spark's own modules loaded that is
    60 ms each time, a sixth of all Python time of a busy query, and finds nothing: modules stay.
    """
    gc.collect()
    gc.freeze()
