"""The demo's picture: mean delays by airline and by hour of the day, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

LEAST = 10
"""Departures of a bar."""
WIDTH, BAR, GAP = 760, 18, 6
_LEFT, _TOP = 204, 46
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-size:16px;font-weight:600}.bar{fill:#00897b}"
    ".n{fill:#777}@media(prefers-color-scheme:dark){svg{background:#1e1e1e}text{fill:#ddd}.n{fill:#999}}"
)


def delays(flights: pd.DataFrame) -> str:
    """The picture of the final table of flights."""
    left = flights[flights["delay"].notna()]
    late = pd.to_timedelta(left["delay"].astype("int64"), unit="min")
    hours = (pd.to_datetime(left["departed"], utc=True) - late).dt.tz_convert("America/New_York").dt.hour
    airlines = _bars(left, left["airline"])
    airlines.sort(key=lambda bar: -bar[1])
    clock = [(f"{int(hour):02} h", value) for hour, value in _bars(left, hours)]
    upper = panel("Mean delay of departure by airline, minutes", airlines, 0)
    lower = panel("The same by the hour in which they were to leave", clock, height(airlines))
    whole = height(airlines) + height(clock)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{whole}" viewBox="0 0 {WIDTH} {whole}">'
        f"<style>{_STYLE}</style>{upper}{lower}</svg>\n"
    )


def _bars(left: pd.DataFrame, group: pd.Series[Any]) -> list[tuple[str, float]]:
    """Mean delays by group, of groups that are large enough to have one."""
    found = left["delay"].astype(float).groupby(group).agg(["mean", "size"])
    return [(str(name), float(mean)) for name, mean, size in found.itertuples() if size >= LEAST]


def height(bars: Sequence[tuple[str, float]]) -> int:
    """Of a panel with these bars."""
    return _TOP + (BAR + GAP) * len(bars) + 14


def panel(title: str, bars: Sequence[tuple[str, float]], top: int) -> str:
    """Bars with their names and numbers below a title.

    >>> "12.5" in panel("Delay", [("Envoy Air", 12.5)], 0)
    True
    """
    longest = max((value for _, value in bars), default=1.0)
    parts = [f'<text class="title" x="12" y="{top + 28}">{escape(title)}</text>']
    for number, (name, value) in enumerate(bars):
        y = top + _TOP + number * (BAR + GAP)
        width = max(1.0, (WIDTH - _LEFT - 70) * max(value, 0.0) / max(longest, 1e-9))
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="bar" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>')
        parts.append(f'<text class="n" x="{_LEFT + width + 6:.1f}" y="{y + 14}">{value:.1f}</text>')
    return "".join(parts)
