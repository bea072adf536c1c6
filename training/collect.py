"""Carry results away from the lent machine in pieces it lets through, and join them at home.

python3 -m training.collect send --keep KEEP --out "$OUT" --wait 200      (there)
python3 -m training.collect receive FILES_AT build/results                      (here)
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

FILES_AT_MOST = 8
BYTES_AT_MOST = 60 << 20


def read(path: Path, default: Any) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return default


def wait_for_news(keep: Path, seconds: float) -> None:
    """Until another run is finished than at the last visit, the driver has ended, or time is up."""
    before = read(keep / "visited.json", 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        finished = len(read(keep / "results.json", []))
        if finished > before or (keep / "state.json").exists():
            break
        time.sleep(1)
    (keep / "visited.json").write_text(str(len(read(keep / "results.json", []))))


def waiting_files(keep: Path) -> list[Path]:
    """What has not been sent yet: files of the best runs first, all of one run together."""
    sent = set(read(keep / "sent.json", []))
    results = read(keep / "results.json", [])
    results.sort(key=lambda row: -float((row.get("valid") or {}).get("exact", -1)))
    files = []
    for row in results:
        names = list(row.get("pieces", ()))
        names += sorted(path.name for path in (keep / "out").glob(f"{row['name']}.*.jsonl.gz"))
        files += [keep / "out" / name for name in names if name not in sent]
    return files


def send(keep: Path, out: Path, seconds: float) -> str:
    wait_for_news(keep, seconds)
    room, count = BYTES_AT_MOST, 0
    for name in ("results.json", "log.txt"):
        if (keep / name).exists():
            shutil.copy(keep / name, out / name)
            room -= (out / name).stat().st_size
            count += 1
    sent = list(read(keep / "sent.json", []))
    waiting = waiting_files(keep)
    for path in waiting:
        size = path.stat().st_size
        if count >= FILES_AT_MOST or size > room:
            break
        shutil.copy(path, out / path.name)
        sent.append(path.name)
        room, count = room - size, count + 1
    (keep / "sent.json").write_text(json.dumps(sent))
    left = len([path for path in waiting if path.name not in sent])
    log = keep / "log.txt"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else ["no log yet"]
    state = read(keep / "state.json", {"state": "running"})
    return "\n".join([*lines[-45:], f"state {state['state']}; files still to send: {left}"])


def receive(source: Path, folder: Path) -> str:
    """Copy what came, then join every adapter whose pieces are all here."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.rglob("*"):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    lines = []
    for row in read(folder / "results.json", []):
        pieces = [folder / name for name in row.get("pieces", ())]
        adapter = folder / f"{row['name']}.gguf"
        if not pieces or adapter.exists() or not all(piece.exists() for piece in pieces):
            continue
        data = b"".join(piece.read_bytes() for piece in pieces)
        if hashlib.sha256(data).hexdigest() != row["adapter_sha256"]:
            lines.append(f"{adapter.name}: wrong SHA-256")
            continue
        temporary = adapter.with_suffix(".tmp")
        temporary.write_bytes(data)
        os.replace(temporary, adapter)
        lines.append(f"{adapter.name}: {len(data)} bytes")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    there = commands.add_parser("send")
    there.add_argument("--keep", type=Path, required=True)
    there.add_argument("--out", type=Path, required=True)
    there.add_argument("--wait", type=float, default=0)
    here = commands.add_parser("receive")
    here.add_argument("source", type=Path)
    here.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "send":
        text = send(options.keep, options.out, options.wait)
    else:
        text = receive(options.source, options.folder)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
