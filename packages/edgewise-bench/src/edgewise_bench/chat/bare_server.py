"""`python -m edgewise_bench.chat.bare_server MODEL`: the runtime's own HTTP server."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from typing import Any


def main() -> None:
    path, threads, slots, context = sys.argv[1], *map(int, sys.argv[2:5])
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel = slots
    params.n_ctx = context * slots
    params.kv_unified = False
    # As edgewise sets them: only the server may be different.
    params.n_batch = params.n_ubatch = 128
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = params.fit_params = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"url": server.listening_address}) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
