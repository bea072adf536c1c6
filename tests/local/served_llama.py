"""llama.cpp's own HTTP server, from the runtime's wheel, in a process of its own, as a device."""

from __future__ import annotations

import json
import subprocess
import sys

from typing_extensions import override

from edgewise.local.running_server import RunningServer, open_backend
from edgewise.local.store import InstalledModel
from edgewise_bench.chat import bare_server


class ServedLlama(RunningServer):
    """The device, and the process behind it."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        opened = open_backend(url)
        super().__init__(opened._dialect, opened.facts())
        self.url = url
        self._process = process

    @override
    def close(self) -> None:
        super().close()
        self._process.kill()
        self._process.communicate()


def serve_llama(
    model: InstalledModel, *, threads: int = 1, context_tokens: int = 512, slots: int = 1
) -> ServedLlama:
    numbers = map(str, (threads, slots, context_tokens))
    process = subprocess.Popen(
        [sys.executable, "-m", bare_server.__name__, str(model.path), *numbers],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return ServedLlama(json.loads(process.stdout.readline())["url"], process)
