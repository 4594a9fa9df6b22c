"""A query as a notebook shows it: a table of its status, and the page as a widget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.page import QueryStatus
from watersmeet._spark.serving.replica import Replica
from watersmeet.errors import ConfigError, installing, missing

_NEEDED = ("anywidget", "starlette", "uvicorn")


def as_html(status: Mapping[str, Any]) -> str:
    """A status as a table, which also those show that run no script.

    Parameters
    ----------
    status : as `QueryStatus.as_json` gives it.
    """
    batch = status["batch"]
    drops = ", ".join(f"{drop['records']} {drop['reason']} at {drop['operator']}" for drop in status["drops"])
    return _table(
        {
            "query": status["query"],
            "state": "active"
            if status["active"]
            else "ended"
            if status["error"] is None
            else f"failed: {status['reason']}",
            "checkpoint": status["checkpoint"],
            "last batch": "none yet" if batch is None else batch["number"],
            "its records": 0 if batch is None else sum(batch["consumed"].values()),
            "dropped since the start": drops or "none",
        }
    )


def _table(entries: Mapping[str, object]) -> str:
    """A row for each name.

    >>> _table({"state": "<active>"})
    '<table><tr><th style="text-align:left">state</th><td style="text-align:left">&lt;active&gt;</td></tr></table>'
    """
    left = 'style="text-align:left"'
    rows = (
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(str(text))}</td></tr>" for name, text in entries.items()
    )
    return f"<table>{''.join(rows)}</table>"


def widget_of(status: QueryStatus, replica: Replica | None, explain: Callable[[str, Any], Any] | None) -> Any:
    """The page of a query as a widget.

    Parameters
    ----------
    status : the query's.
    replica : its served tables; None: none are served.
    explain : its answers about rows; None: it keeps no journal.
    """
    lacking = missing(_NEEDED)
    if lacking:
        raise ConfigError(
            f"query.widget() needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('notebook')}.",
        )
    # of packages that are extras
    from watersmeet._spark.serving.http import HttpReplica, QueryView
    from watersmeet._spark.serving.widget import QueryWidget

    served = Replica([], 1) if replica is None else replica
    view = QueryView(status, lambda: b"", 0, explain)
    application = HttpReplica(served, Access.of("127.0.0.1:0", None, None, None), view).unguarded
    return QueryWidget(application, status.is_active)
