"""llama.cpp's own HTTP server, from the runtime's wheel, in a process of its own.

`python tests/local/served_llama.py MODEL THREADS CONTEXT SLOTS` is that process; `serve_llama`
starts it and opens it as a device.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from typing import Any

from typing_extensions import override

from edgewise.local.running_server import RunningServer, open_backend
from edgewise.local.store.store import InstalledModel


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
    numbers = map(str, (threads, context_tokens, slots))
    process = subprocess.Popen(
        [sys.executable, __file__, str(model.path), *numbers],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return ServedLlama(process.stdout.readline().strip(), process)


def main() -> None:
    path, threads, context, slots = sys.argv[1], *map(int, sys.argv[2:5])
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel = slots
    params.n_ctx = context * slots
    params.kv_unified = False
    params.n_batch = params.n_ubatch = 128
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = params.fit_params = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201  # for whoever started us
    threading.Event().wait()


if __name__ == "__main__":
    main()
