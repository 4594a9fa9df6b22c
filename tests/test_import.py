"""`import watersmeet` loads what a declaration needs, and nothing of what only a running level needs."""

from __future__ import annotations

import subprocess
import sys


def test_an_import_of_the_package_does_not_import_pandas() -> None:
    # pyarrow imports pandas when it makes its first array or scalar of Python values
    program = "import sys, watersmeet; print(*{'pandas', 'pytz', 'grpc', 'IPython'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
