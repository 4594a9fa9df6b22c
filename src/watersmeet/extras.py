"""Packages that only some of watersmeet needs: how they are installed.

Vocabulary. There is no release yet: what is installed is a clone, and so are its extras.
"""

from __future__ import annotations


def installing(extra: str) -> str:
    """How an extra is installed, as a hint.

    >>> installing("registry")
    'In the clone: pip install ".[registry]"'
    """
    return f'In the clone: pip install ".[{extra}]"'
