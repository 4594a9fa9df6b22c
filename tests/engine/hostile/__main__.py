"""Reads mutations of one target: `python -m tests.engine.hostile TARGET FIRST COUNT`."""

from __future__ import annotations

from tests.engine.hostile.read import main

main()
