"""The README's picture of the page: `python -m dev.docs.page_picture URL`, while `make demo LIVE=1` runs at URL."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser import chromium

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "page.png"
WIDTH, HEIGHT = 1240, 760
SEEN_MS = 30_000
"""For which the page has been open: arrows that have grown and the times of some batches are seen."""


def main(url: str) -> None:
    """Write the picture of a running demo."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(url)
        page.locator("#rows tbody tr").first.wait_for()
        page.wait_for_timeout(SEEN_MS)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
