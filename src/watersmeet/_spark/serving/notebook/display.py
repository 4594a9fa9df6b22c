"""A query as a notebook shows it: a table of its status, and the page as a widget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from watersmeet._spark.serving.listening.access import Access
from watersmeet._spark.serving.page.status import QueryStatus
from watersmeet._spark.serving.replica import Replica
from watersmeet.errors import ConfigError
from watersmeet.extras import installing, missing

_NEEDED = ("anywidget", "starlette", "uvicorn")


def as_html(said: Mapping[str, Any]) -> str:
    """A status as a table, which also those show that run no script.

    Parameters
    ----------
    said : as `QueryStatus.as_json` gives it.
    """
    batch = said["batch"]
    drops = ", ".join(f"{each['records']} {each['reason']} at {each['operator']}" for each in said["drops"])
    return _table(
        {
            "query": said["query"],
            "state": "active" if said["active"] else "ended" if said["error"] is None else f"failed: {said['reason']}",
            "checkpoint": said["checkpoint"],
            "last batch": "none yet" if batch is None else batch["number"],
            "its records": 0 if batch is None else sum(batch["consumed"].values()),
            "dropped since the start": drops or "none",
        }
    )


def _table(said: Mapping[str, object]) -> str:
    """A row for each name.

    >>> _table({"state": "<active>"})
    '<table><tr><th style="text-align:left">state</th><td style="text-align:left">&lt;active&gt;</td></tr></table>'
    """
    left = 'style="text-align:left"'
    rows = (
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(str(text))}</td></tr>" for name, text in said.items()
    )
    return f"<table>{''.join(rows)}</table>"


def widget_of(status: QueryStatus, replica: Replica | None, why: Callable[[str, Any], Any] | None) -> Any:
    """The page of a query as a widget.

    Parameters
    ----------
    status : the query's.
    replica : its served tables; None: none are served.
    why : its answers about rows; None: it keeps no journal.

    Raises
    ------
    ConfigError : a package is missing.
    """
    lacking = missing(_NEEDED)
    if lacking:
        raise ConfigError(
            f"query.widget() needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('notebook')}.",
        )
    from watersmeet._spark.serving.listening.http import HttpReplica, QueryView
    from watersmeet._spark.serving.notebook.widget import QueryWidget

    served = Replica([], 1) if replica is None else replica
    view = QueryView(status, lambda: b"", 0, why)
    application = HttpReplica(served, Access.of("127.0.0.1:0", None, None, None), view).unguarded
    return QueryWidget(application, status.is_active)
