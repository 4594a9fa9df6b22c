"""Names and what they stand for, as a table that a notebook shows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def as_html(said: Mapping[str, object]) -> str:
    """A row for each name.

    >>> as_html({"state": "<active>"})
    '<table><tr><th style="text-align:left">state</th><td style="text-align:left">&lt;active&gt;</td></tr></table>'
    """
    left = 'style="text-align:left"'
    rows = (
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(str(text))}</td></tr>" for name, text in said.items()
    )
    return f"<table>{''.join(rows)}</table>"
