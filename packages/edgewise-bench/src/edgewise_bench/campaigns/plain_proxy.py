"""`python -m edgewise_bench.campaigns.plain_proxy URL`: a reverse proxy that only passes bytes on.

Built on what our server is built on, so that the difference is what our server does.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


def make_app(target: str) -> Starlette:
    client = httpx2.AsyncClient(base_url=target, timeout=60)

    async def forward(request: Request) -> StreamingResponse:
        sent = client.build_request(
            "POST",
            request.url.path,
            content=await request.body(),
            headers={"content-type": "application/json"},
        )
        answer = await client.send(sent, stream=True)

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in answer.aiter_raw():
                yield piece
            await answer.aclose()

        kind = answer.headers.get("content-type")
        return StreamingResponse(pieces(), answer.status_code, media_type=kind)

    return Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])])


def main() -> None:
    # With its protocol named: else asyncio would not turn off the delays of small packets.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()
    server = uvicorn.Server(uvicorn.Config(make_app(sys.argv[1]), log_level="warning"))
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
