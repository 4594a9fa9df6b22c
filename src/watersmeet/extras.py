"""Packages that only some of watersmeet needs: which are missing, and how they are installed.

Vocabulary. There is no release yet: what is installed is a clone, and so are its extras.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec


def installing(extra: str) -> str:
    """How an extra is installed, as a hint.

    >>> installing("registry")
    'In the clone: pip install ".[registry]"'
    """
    return f'In the clone: pip install ".[{extra}]"'


def missing(packages: Iterable[str]) -> list[str]:
    """Those that cannot be imported, of packages by the names of their modules.

    >>> missing(["json", "no_such_package", "no_such_package.part"])
    ['no_such_package', 'no_such_package.part']
    """
    return [name for name in packages if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package above it
        return False
