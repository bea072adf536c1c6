"""`python -m edgewise.testing.loopback_cloud`: the scripted cloud as a separate process."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from edgewise.testing.loopback_cloud import LoopbackCloud
from edgewise.testing.loopback_cloud.wires import FIXED_SENTENCE, Answer, Silence, Status


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    told_to_stop = threading.Event()
    # Before the address is printed: its reader may send the signal at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: told_to_stop.set())
    with LoopbackCloud(port=options.port, log=options.log) as cloud:
        if options.silent:
            cloud.always(Silence())
        elif options.status:
            cloud.always(Status(options.status, retry_after_s=options.retry_after))
        else:
            cloud.always(
                Answer(
                    text=options.answer,
                    chunk_size=options.chunk_size,
                    delay_first_s=options.delay_first,
                    delay_between_s=options.delay_between,
                )
            )
        addresses = {
            "url": cloud.url,
            "openai_url": cloud.openai_url,
            "gemini_url": cloud.gemini_url,
            "anthropic_url": cloud.anthropic_url,
            "cactus_url": cloud.cactus_url,
        }
        sys.stdout.write(json.dumps(addresses) + "\n")
        sys.stdout.flush()
        told_to_stop.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m edgewise.testing.loopback_cloud",
        description="A scripted cloud on 127.0.0.1. Prints its addresses as one line of JSON.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--answer", default=FIXED_SENTENCE, help="text of every answer")
    parser.add_argument("--chunk-size", type=int, default=8, help="characters per streamed piece")
    parser.add_argument("--delay-first", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("--delay-between", type=float, default=0.0, help="seconds between pieces")
    parser.add_argument("--status", type=int, help="answer every request with this HTTP error")
    parser.add_argument("--retry-after", type=float, help="seconds to name with --status")
    parser.add_argument("--silent", action="store_true", help="never answer")
    parser.add_argument("--log", type=Path, help="append one line of JSON per request seen")
    return parser


if __name__ == "__main__":
    sys.exit(main())
