"""Draws the pictures of the docs anew: `python -m tests.spark.session.write_pictures`."""

from __future__ import annotations

import watersmeet as wm
from tests.spark.session.test_docs import BLOCK, PAGES, PICTURE, pictures, run


def main() -> None:
    """Write the picture of each topology that a page shows."""
    spark = wm.session("pictures")
    for page in PAGES:
        text = page.read_text()
        if PICTURE.search(text):
            for picture, drawn in pictures(page, run(page, BLOCK.findall(text), spark)).items():
                picture.parent.mkdir(exist_ok=True)
                picture.write_text(drawn)


if __name__ == "__main__":
    main()
