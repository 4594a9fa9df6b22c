"""Errors of a table that cannot be read now; the servers turn each kind into a status of theirs."""

from __future__ import annotations

from watersmeet.errors import ConfigError, WatersmeetError


class NotServed(ConfigError):
    """The table, the version or the batch is not here, or not any more: asking again does not help."""


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
