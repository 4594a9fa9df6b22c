"""Errors of a table that cannot be read now; the servers turn each kind into a status of theirs."""

from __future__ import annotations

from watersmeet.errors import ConfigError, WatersmeetError


class NotServed(ConfigError):
    """The table, the version or the batch is not here, or not any more: asking again does not help."""


class Unknown(ConfigError):
    """There is no table of this name."""


class Busy(ConfigError):
    """So many questions of this kind are being answered already."""


class TooEarly(WatersmeetError):
    """The replica has not reached the batch that is asked for.

    Parameters
    ----------
    wanted : its number; None: any.
    has : the batch that the replica has; None: none yet.
    """

    def __init__(self, wanted: int | None, has: int | None) -> None:
        batch = "its first batch" if wanted is None else f"at_least={wanted}"
        super().__init__(
            f"The replica has not reached {batch} in time.",
            given="no batch is there yet" if has is None else f"it is at {has}",
            hint="Give more time (timeout=), or see whether the query still runs.",
        )
