"""Warnings that stand on the user's own line, however deep below they are found."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[2])


def warn(message: str, hint: str) -> None:
    """Warn: what is so, and what to do or to know, in the form of our errors."""
    frame, depth = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"{message}\nHint: {hint}", stacklevel=depth)
