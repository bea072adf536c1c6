"""Servers that speak the wires of Ollama and of OpenAI's imitators. Fakes: neither can be had here.

What they send was written down from the real ones' sources (see docs/guide/runtimes.md).
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

WORDS = ("The", " symbol", " is", " Au", ".")
Answer = Callable[[dict[str, Any]], tuple[int, Iterator[str]]]


def evidence(token: str) -> dict[str, Any]:
    others = [{"token": token, "logprob": -0.1}, {"token": "x", "logprob": -2.5}]
    return {"token": token, "logprob": -0.1, "top_logprobs": others}


class FakeServer:
    """A server on loopback that answers by path, and remembers what it was asked."""

    def __init__(self, paths: dict[str, Any]) -> None:
        self.paths = paths
        self.asked: list[tuple[str, dict[str, Any]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({})

            def do_POST(self) -> None:
                self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def answer(self, body: dict[str, Any]) -> None:
                path = self.path.partition("?")[0]
                fake.asked.append((path, body))
                found = fake.paths.get(path)
                if found is None:
                    status, lines = 404, iter(['{"error": "not found"}'])
                elif callable(found):
                    status, lines = found(body)
                else:
                    status, lines = 200, iter([json.dumps(found)])
                self.send_response(status)
                self.send_header("connection", "close")
                self.end_headers()
                with contextlib.suppress(OSError):  # a client that left
                    for line in lines:
                        self.wfile.write(line.encode() + b"\n")
                        self.wfile.flush()

            @override
            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def fake_ollama(*, version: str = "0.13.0", remote_host: str = "", late: str = "") -> FakeServer:
    """Ollama with one model. `remote_host`: it says at once that it sends it away; `late`: only
    in its answer."""

    def show(body: dict[str, Any]) -> tuple[int, Iterator[str]]:
        if body["model"] != "qwen3:4b":
            return 404, iter(['{"error": "model not found"}'])
        told = {
            "capabilities": ["completion", "thinking"],
            "details": {"quantization_level": "Q4_K_M"},
            "model_info": {"qwen3.context_length": 40960},
        }
        return 200, iter([json.dumps(told | ({"remote_host": remote_host} if remote_host else {}))])

    def chat(body: dict[str, Any]) -> tuple[int, Iterator[str]]:
        if len(str(body["messages"])) > 20_000:
            return 400, iter(['{"error": "the input length exceeds the context length"}'])

        def lines() -> Iterator[str]:
            for word in WORDS:
                line: dict[str, Any] = {"message": {"role": "assistant", "content": word}}
                if late:
                    line["remote_host"] = late
                if body.get("logprobs"):
                    line["logprobs"] = [evidence(word)]
                yield json.dumps(line | {"done": False})
            yield json.dumps(
                {
                    "message": {"role": "assistant", "content": ""},
                    "done": True,
                    "done_reason": "stop",
                    "prompt_eval_count": 20,
                    "eval_count": len(WORDS) + 1,
                }
            )

        return 200, lines()

    return FakeServer(
        {
            "/v1/models": {"data": [{"id": "qwen3:4b", "owned_by": "library"}]},
            "/api/version": {"version": version},
            "/api/show": show,
            "/api/chat": chat,
        }
    )


def fake_openai(*, tells: bool, owner: str = "organization_owner", cached: int = 0) -> FakeServer:
    """One of the many that speak OpenAI's API; `tells`: with log-probabilities.

    `cached`: so many tokens of every prompt it has read before.
    """
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
    usage = {"prompt_tokens": 9, "completion_tokens": 6, **details}

    def chat(body: dict[str, Any]) -> tuple[int, Iterator[str]]:
        told = tells and body.get("logprobs")
        if not body.get("stream"):
            choice = {"message": {"content": "Yes"}, "finish_reason": "length"}
            if told:
                choice["logprobs"] = {"content": [evidence("Yes")]}
            return 200, iter([json.dumps({"choices": [choice]})])

        def lines() -> Iterator[str]:
            for word in WORDS:
                choice: dict[str, Any] = {"delta": {"content": word}, "finish_reason": None}
                choice["logprobs"] = {"content": [evidence(word)] if told else []}
                yield "data: " + json.dumps({"choices": [choice]}) + "\n"
            yield 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n'
            yield "data: " + json.dumps({"choices": [], "usage": usage}) + "\n"
            yield "data: [DONE]\n"

        return 200, lines()

    model = {"id": "some/model-7b", "owned_by": owner, "max_model_len": 2048}
    return FakeServer({"/v1/models": {"data": [model]}, "/v1/chat/completions": chat})


def fake_llama_server(words: tuple[str, ...] = WORDS) -> FakeServer:
    """llama-server whose context is full after these words of an answer."""
    full = {"type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4096}

    def chat(_: dict[str, Any]) -> tuple[int, Iterator[str]]:
        def lines() -> Iterator[str]:
            for word in words:
                choice = {"delta": {"content": word}, "logprobs": {"content": [evidence(word)]}}
                yield "data: " + json.dumps({"choices": [choice]}) + "\n"
            yield "error: " + json.dumps(full) + "\n"

        return 200, lines()

    return FakeServer(
        {
            "/v1/models": {"data": [{"id": "a-model", "owned_by": "llamacpp"}]},
            "/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1},
            "/v1/chat/completions": chat,
        }
    )
