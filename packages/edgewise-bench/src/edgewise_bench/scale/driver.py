"""`python -m edgewise_bench.scale.driver URL STREAMS SEED`: streams without end, one line for each.

A line is JSON: the request's id, and how its stream ended. Half of the requests may go to the
cloud.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from typing import Any

import httpx2

WHOLE, ERROR, CUT, REFUSED, SILENT = "whole", "error", "cut", "refused", "silent"
ANSWER_S = 60.0
BODY = {"model": "auto", "stream": True, "max_tokens": 64}


class Stream:
    """One streamed answer, as a client sees it."""

    def __init__(self) -> None:
        self.id, self.text, self.end = "", "", SILENT

    def ask(self, client: httpx2.Client, url: str, question: str, policy: str) -> str:
        """How it ended: whole, with an error event, cut by the connection, refused; or silent."""
        body: dict[str, Any] = {
            **BODY,
            "messages": [{"role": "user", "content": question}],
            "metadata": {"policy": policy},
        }
        try:
            with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
                if answer.status_code != 200:
                    answer.read()
                    return REFUSED
                for line in answer.iter_lines():
                    self._take(line.removeprefix("data: "))
        except httpx2.HTTPError:
            return CUT
        return self.end

    def _take(self, words: str) -> None:
        if words == "[DONE]":
            self.end = WHOLE if self.end == SILENT else self.end
        elif words.startswith("{"):
            chunk = json.loads(words)
            if "error" in chunk:
                self.end = ERROR
                return
            self.id = chunk["id"].removeprefix("chatcmpl-")
            for choice in chunk["choices"]:
                self.text += choice["delta"].get("content") or ""


def main(url: str, streams: str, seed: str) -> None:
    lock = threading.Lock()

    def keep_asking(number: int) -> None:
        chance = random.Random(f"{seed}-{number}")
        with httpx2.Client(timeout=ANSWER_S) as client:
            for turn in range(sys.maxsize):
                stream = Stream()
                policy = chance.choice(("local_only", "prefer_cloud"))
                question = f"Question {turn} of {number}?"
                end = stream.ask(client, url, question, policy)
                with lock:
                    sys.stdout.write(json.dumps({"id": stream.id, "end": end}) + "\n")
                    sys.stdout.flush()
                if end in (CUT, REFUSED):
                    threading.Event().wait(0.2)

    threads = [threading.Thread(target=keep_asking, args=(n,)) for n in range(int(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:4])
