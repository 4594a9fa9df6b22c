"""What is answered where a table cannot be read now: kinds of errors, which the servers turn into their statuses."""

from __future__ import annotations

from watersmeet.errors import ConfigError, WatersmeetError


class NotServed(ConfigError):
    """What is asked for is not here, or not any more: asking again does not help."""


class Unknown(ConfigError):
    """There is no table of this name."""


class TooEarly(WatersmeetError):
    """The replica has not reached the batch that is asked for.

    Parameters
    ----------
    wanted : its number; None: any.
    has : the batch that the replica has; None: none yet.
    """

    def __init__(self, wanted: int | None, has: int | None) -> None:
        super().__init__(
            "The replica has not reached this batch in time.",
            given=f"at_least={wanted}, it is at {has}" if wanted is not None else "no batch is there yet",
            hint="Give more time (timeout=), or see whether the query still runs.",
        )
