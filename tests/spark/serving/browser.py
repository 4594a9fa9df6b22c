"""A real browser for the tests of the page: Chromium without a window, installed where that is possible."""

from __future__ import annotations

import shutil
from functools import cache

from dev.debian import ProgramMissing, install

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@cache
def chromium() -> str:
    """The path of the program.

    Raises
    ------
    ProgramMissing : it is not here and cannot be installed.
    """
    found = _found()
    if found is None:
        install("chromium")
        found = _found()
    if found is None:
        raise ProgramMissing(f"chromium was installed, but there is none of {', '.join(_NAMES)} on the path.")
    return found


def _found() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path is not None), None)
