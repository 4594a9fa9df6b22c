"""A real browser for tests of pages: Chromium without a window, installed where that is possible.

A `conftest.py` that imports `browser` has one for each file of its folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from dev.debian import ProgramMissing, install

MOST_MS = 600_000
"""A guard against hanging, far above what anything here takes."""
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


def absent(reason: str) -> NoReturn:
    """Skip the test; where continuous integration runs, nothing may be absent: fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _found() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path is not None), None)


# one at a time in a process: it runs a loop of asyncio in the thread of the tests, where a second one may not begin
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; the tests are skipped where there is none."""
    try:
        path = chromium()
    except ProgramMissing as missing:
        absent(f"no browser: {missing}")
    with sync_playwright() as playwright:
        # root has no sandbox; the only pages are ours
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


@dataclass
class Shown:
    """A page in the browser, and all that it has complained of and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(MOST_MS)
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
