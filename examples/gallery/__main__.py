"""The gallery in a terminal: its programs by subject, and what one of them gives.

python -m examples.gallery
python -m examples.gallery aggregating.word_count
"""

from __future__ import annotations

import sys

import watersmeet as wm
from examples.gallery import programs


def main(given: list[str]) -> None:
    """List all programs, or run those that are named."""
    if not given:
        print("\n".join(f"{name:48} {programs.title(programs.program(name))}" for name in programs.names()))
        return
    wm.session("gallery")
    for name in given:
        of = programs.program(name)
        print(f"{of.__doc__}\n{of.topology().describe()}\n")
        for output, records in programs.outcome(of).records.items():
            print(output, *records, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
