"""The dashboard's own files: a page, its style and its scripts; nothing from anywhere else."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgewise.server.errors import Fault, openai_error

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# No inline script or style, no other host, no frame around it: what a request carries is shown as
# text, and even a slip there could not run.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(self)",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


async def page(request: Request) -> Response:
    """`/` is the page; its parts lie under `/dashboard/`."""
    name = request.path_params.get("name", "index.html")
    content = files().get(name)
    if content is None:
        fault = Fault(status=404, code="not_found", message="no such file")
        return JSONResponse(openai_error(fault), fault.status)
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = HEADERS | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=KINDS[name.rpartition(".")[2]])


@cache
def files() -> dict[str, bytes]:
    """By name."""
    folder = resources.files("edgewise.server.dashboard") / "static"
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in KINDS
    }
