"""The notebooks among the examples, run in a kernel of their own as their readers run them.

`python -m tests.examples.notebook` writes what each shows into it anew, which the tests then compare.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUERY, FILES = _EXAMPLES / "a_query_looked_into.ipynb", _EXAMPLES / "from_files_to_a_plot.ipynb"
_FOLDER = re.compile(r"[^\s'\"<>]*/tmp\w{8}/")


def read(path: Path) -> Any:
    """The notebook as it lies there."""
    return nbformat.read(path, as_version=4)


def ran(path: Path, folder: Path) -> Any:
    """The notebook, run to its end, with what it shows; its files lie in the folder.

    Raises
    ------
    CellExecutionError : a cell fails.
    """
    notebook = read(path)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False)
    client.execute(env={**os.environ, "TMPDIR": str(folder)})
    for cell in notebook.cells:
        # Spark warns on standard error of what differs from machine to machine
        cell["outputs"] = [_plain(each) for each in cell.get("outputs", []) if each.get("name") != "stderr"]
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


def _plain(output: Any) -> Any:
    """An output without the name of the folder."""
    if "text" in output:
        output["text"] = _FOLDER.sub("/tmp/folder/", output["text"])
    for kind, text in output.get("data", {}).items():
        output["data"][kind] = _FOLDER.sub("/tmp/folder/", text)
    return output


def main() -> None:
    """Run them, and write each with what it shows; or those that are named."""
    for path in map(Path, sys.argv[1:] or map(str, (QUERY, FILES))):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(ran(path, Path(folder)), path)


if __name__ == "__main__":
    main()
