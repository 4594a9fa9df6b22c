"""Libraries of formats, which only those need who use the formats."""

from __future__ import annotations

import importlib
from typing import Any

from watersmeet.errors import ConfigError
from watersmeet.extras import installing


def needed(name: str) -> Any:
    """The module of this name.

    Raises
    ------
    ConfigError : it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "A format needs a package that is not installed.",
            given=str(error),
            hint=f"{installing('registry')}, on the driver and on every executor.",
        ) from None
