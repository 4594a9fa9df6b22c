"""`import watersmeet` loads what a declaration needs, and nothing of what only a running level needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import watersmeet as wm
from watersmeet.errors import is_others

ABSENT = {"pandas", "pytz", "grpc", "IPython", "anywidget", "starlette", "uvicorn", "fastavro", "psycopg", "mcp"}


def test_an_import_of_the_package_imports_neither_pandas_nor_what_an_extra_brings() -> None:
    # pyarrow imports pandas when it makes its first array or scalar of Python values
    program = f"import sys, watersmeet; print(*{ABSENT} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_module_that_lies_beside_the_package_is_the_users_own() -> None:
    package = Path(wm.__file__).parent
    assert is_others(str(package / "_spark" / "functions.py"))
    assert not is_others(str(package.parent / "shop.py"))
