"""Bytes that were altered: random mutations of what is read from disk and network, each read in this process.

`python -m tests.hostile TARGET FIRST COUNT` reads so many mutations; a reader that dies takes this process with
it, so a test runs it in one of its own. Each input comes from its number alone. Of a mutation three things may come:
what was there before, an error of watersmeet's, or, where whoever altered it has made the sums anew ("sealed"), other
rows. Anything else is written to the standard output as JSON: by outcome how often, and the first number of it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import warnings
from collections.abc import Callable

from tests.hostile.blobs import blobs, lying
from tests.hostile.checkpoint import checkpoint_files
from tests.hostile.mutations import REFUSED
from tests.hostile.state import cache_files, sealed_chunk, sealed_manifest, state
from watersmeet.errors import WatersmeetError

SECONDS = 120
"""For one input: a reader that has not ended then hangs."""
MEMORY = 6 << 30
TARGETS: dict[str, Callable[[random.Random, int], str]] = {
    each.__name__: each for each in (blobs, lying, state, sealed_chunk, sealed_manifest, cache_files, checkpoint_files)
}


def outcome(target: str, number: int) -> str:
    """What comes of one input."""
    try:
        return TARGETS[target](random.Random(f"{target} {number}"), number)
    except WatersmeetError as error:
        return REFUSED if error.hint else f"NO HINT {error}"[:200]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # whatever it is, it is no error of watersmeet's
        return f"RAW {type(error).__name__}: {error}"[:200].replace("\n", " ")


def main() -> None:
    target, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found: dict[str, list[int]] = {}
    for number in range(first, first + count):
        # what was read last is known to whoever started this, also where it dies of it
        os.write(2, f"{number}\n".encode())
        signal.alarm(SECONDS)
        found.setdefault(outcome(target, number), []).append(number)
    signal.alarm(0)
    sys.stdout.write(json.dumps({name: [len(numbers), numbers[0]] for name, numbers in found.items()}))
