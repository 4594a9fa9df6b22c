"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from dev.debian import ProgramMissing
from tests.spark.serving.browser import chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    try:
        path = chromium()
    except ProgramMissing as missing:
        pytest.skip(f"no browser: {missing}")
    with sync_playwright() as playwright:
        # root has no sandbox; the only pages are ours
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()
