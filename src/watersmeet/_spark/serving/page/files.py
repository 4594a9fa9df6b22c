"""The files of the page, as the package has them. They are the same for all queries, and nothing of a query is in them.

A browser loads nothing from elsewhere for the page, nor runs what is not in these files: the policy in the headers.
"""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MODULES = ("shown", "topology", "numbers", "tables", "page")
"""The parts of the script, each behind those that it imports; `start` has a browser show them, `widget` a notebook."""
_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in ("start", *MODULES)},
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
PATHS = frozenset(_FILES)


def routes() -> list[Route]:
    """A route for each file."""
    return [_route(path, *file) for path, file in _FILES.items()]


def text_of_file(name: str) -> str:
    """The text of a file of the page."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _route(path: str, name: str, kind: str) -> Route:
    content = (files(__package__) / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, headers=HEADERS, media_type=f"{kind}; charset=utf-8")

    return Route(path, answer)
