"""Requests to the loopback cloud without an SDK; one gives access to its socket."""

from __future__ import annotations

import json
import socket
import threading

import httpx2

from edgewise.testing import LoopbackCloud

CHAT = {"model": "m", "messages": [], "stream": True}


def ask(client: httpx2.Client, cloud: LoopbackCloud, text: str = "hello") -> httpx2.Response:
    return client.post(f"{cloud.cactus_url}/text", json={"text": text})


def send_chat(cloud: LoopbackCloud) -> socket.socket:
    """A client that has sent its request, with access to its socket."""
    content = json.dumps(CHAT).encode()
    sock = socket.create_connection(("127.0.0.1", cloud.port), timeout=30)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    sock.sendall(head.encode() + content)
    return sock


def cloud_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "loopback-cloud" in thread.name]
