"""Reads mutations of one target: `python -m tests.hostile TARGET FIRST COUNT`."""

from __future__ import annotations

from tests.hostile.read import main

main()
