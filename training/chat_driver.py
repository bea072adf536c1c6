"""Trace chat models on the lent machine: one process that waits for files, traces and fits.

    python -m training.chat_driver pack  --models DIR… --rows FOLDER --out build/chat      (here)
    python3 -m training.chat_driver take --keep KEEP --source build/chat/NN                (there)
    python3 -m training.chat_driver run  --keep KEEP --minutes 20                          (there)
    python3 -m training.chat_driver send --keep KEEP --out "$OUT"                          (there)

`pack` cuts model files into numbered folders that may travel one by one; `take` moves one in. `run`
works on a model as soon as all of its pieces and its rows are there, in the order they were packed,
and skips what is done: it can be started again at any time. `send` hands out what was not sent yet.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from training.pack import MIB, join, missing_pieces, split

FILES_AT_MOST, BYTES_AT_MOST, FILE_BYTES = 8, 60 * MIB, 15 * MIB


def pack(models: Sequence[Path], rows: Path, out: Path, piece_mib: float) -> int:
    """Numbered folders, one to a call. The rows of all models travel with the first."""
    out.mkdir(parents=True, exist_ok=True)
    number = 0
    first = out / "00"
    first.mkdir(exist_ok=True)
    names = []
    for model in models:
        for piece in split(model, out / "cut", int(piece_mib * MIB)):
            number += 1
            folder = out / f"{number:02d}"
            folder.mkdir(exist_ok=True)
            piece.rename(folder / piece.name)
        notes = out / "cut" / f"{model.name}.pieces.json"
        notes.rename(first / notes.name)
        names.append(model.name)
        shutil.copyfile(rows / f"{model.stem}.rows.jsonl.gz", first / f"{model.stem}.rows.jsonl.gz")
    (out / "cut").rmdir()
    (first / "models.json").write_text(json.dumps(names))
    return number


def take(keep: Path, source: Path) -> str:
    """Move what travelled to a place that the next call does not replace."""
    folder = keep / "pieces"
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        temporary = folder / f".{path.name}"
        shutil.copyfile(path, temporary)
        temporary.rename(folder / path.name)
    return _state(keep)


def _names(keep: Path) -> list[str]:
    path = keep / "pieces" / "models.json"
    names: list[str] = json.loads(path.read_text()) if path.exists() else []
    return names


def _state(keep: Path) -> str:
    lines = []
    for name in _names(keep):
        stem = Path(name).stem
        missing = missing_pieces(keep / "pieces", name)
        done = (keep / f"{stem}.head.json").exists()
        traced = (keep / stem).exists()
        state = "fitted" if done else "traced" if traced else f"{len(missing)} pieces missing"
        lines.append(f"{name}: {'ready' if not missing and not traced else state}")
    log = keep / "log.txt"
    tail = log.read_text(errors="replace").splitlines()[-25:] if log.exists() else []
    return "\n".join([*lines, *tail])


def run(keep: Path, minutes: float) -> None:
    """Until all models are fitted or the time is up; each step is a process of its own."""
    until = time.monotonic() + 60 * minutes
    failed: dict[str, int] = {}
    while time.monotonic() < until:
        names = _names(keep)
        open_ones = [name for name in names if not (keep / f"{Path(name).stem}.head.json").exists()]
        if names and not open_ones:
            break
        ready = [
            name
            for name in open_ones
            if failed.get(name, 0) < 2 and not missing_pieces(keep / "pieces", name)
        ]
        if not ready:
            time.sleep(1)
            continue
        if not _work(keep, ready[0]):
            failed[ready[0]] = failed.get(ready[0], 0) + 1
    with (keep / "log.txt").open("a") as log:
        log.write("driver: done\n")


def _work(keep: Path, name: str) -> bool:
    stem = Path(name).stem
    rows = keep / "pieces" / f"{stem}.rows.jsonl.gz"
    model, traces, head = keep / name, keep / stem, keep / f"{stem}.head.json"
    if not model.exists():
        join(keep / "pieces", name, model)
    unfinished = keep / f".{stem}"
    if unfinished.exists() and not traces.exists():
        shutil.rmtree(unfinished)
    steps = (
        ["training.chat_traces", "--model", model, "--rows", rows, "--out", traces],
        ["training.fit_head", "--traces", traces, "--rows", rows, "--out", head],
    )
    for step in steps:
        begin = time.monotonic()
        with (keep / "log.txt").open("a") as log:
            log.write(f"{stem}: {step[0]} begins\n")
            log.flush()
            command = [sys.executable, "-m", *map(str, step)]
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
            log.write(
                f"{stem}: {step[0]} ended with {code} after {time.monotonic() - begin:.0f} s\n"
            )
        if code:
            return False
    return True


def _results(keep: Path) -> list[Path]:
    """What goes home: heads and answers, then the states that the heads use, and early ones."""
    found = []
    for name in _names(keep):
        stem = Path(name).stem
        head = keep / f"{stem}.head.json"
        if head.exists():
            found += [head, keep / stem / "answers.npz"]
    for name in _names(keep):
        stem = Path(name).stem
        head = keep / f"{stem}.head.json"
        if head.exists():
            heads = json.loads(head.read_text())["heads"]
            states = [heads["answer"]["state"], heads["before"]["state"]]
            states += sorted(path.stem for path in (keep / stem).glob("early*.npz"))
            found += [keep / stem / f"{state}.npz" for state in states]
    return found


def send(keep: Path, out: Path) -> str:
    """Files of at most 15 MiB, as many as one call lets through; larger ones are cut."""
    sent_path, waiting = keep / "sent.json", keep / "waiting"
    sent: list[str] = json.loads(sent_path.read_text()) if sent_path.exists() else []
    waiting.mkdir(exist_ok=True)
    room, count, left = BYTES_AT_MOST, 0, 0
    if (keep / "log.txt").exists():
        shutil.copyfile(keep / "log.txt", out / "log.txt")
        count += 1
    for path in _results(keep):
        name = path.name if path.parent == keep else f"{path.parent.name}.{path.name}"
        whole = waiting / name
        notes = waiting / f"{name}.pieces.json"
        if not notes.exists():
            shutil.copyfile(path, whole)
            split(whole, waiting, FILE_BYTES)
            whole.unlink()
        for piece in (notes.name, *json.loads(notes.read_text())["pieces"]):
            if piece in sent:
                continue
            size = (waiting / piece).stat().st_size
            # The notes of all files go into one: they are small, and files are counted.
            if piece == notes.name:
                with (out / "notes.jsonl").open("a") as file:
                    file.write(notes.read_text() + "\n")
                continue
            if count >= FILES_AT_MOST - 1 or size > room:
                left += 1
                continue
            shutil.copyfile(waiting / piece, out / piece)
            sent.append(piece)
            room, count = room - size, count + 1
    sent_path.write_text(json.dumps(sent))
    return f"{_state(keep)}\npieces still to send: {left}"


def receive(source: Path, folder: Path) -> str:
    """Copy what came and join every file whose pieces are all here."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.rglob("*"):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    lines = []
    for line in (folder / "notes.jsonl").read_text().splitlines():
        notes = json.loads(line)
        name, stem = notes["name"], notes["name"].rpartition(".")[0]
        (folder / f"{name}.pieces.json").write_text(line)
        whole = folder / name
        if name.endswith(".npz"):  # MODEL.mean-19.npz lies in the folder MODEL
            model, _, state = stem.rpartition(".")
            (folder / model).mkdir(exist_ok=True)
            whole = folder / model / f"{state}.npz"
        if not whole.exists() and not missing_pieces(folder, name):
            join(folder, name, whole)
            lines.append(f"{whole.name}: {whole.stat().st_size:,} bytes")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("pack")
    one.add_argument("--models", type=Path, nargs="+", required=True)
    one.add_argument("--rows", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--piece-mib", type=float, default=48)
    for name in ("take", "run", "send"):
        commands.add_parser(name).add_argument("--keep", type=Path, required=True)
    commands.choices["take"].add_argument("--source", type=Path, required=True)
    commands.choices["run"].add_argument("--minutes", type=float, default=20)
    commands.choices["send"].add_argument("--out", type=Path, required=True)
    home = commands.add_parser("receive")
    home.add_argument("source", type=Path)
    home.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    said = ""
    if options.command == "pack":
        said = f"{pack(options.models, options.rows, options.out, options.piece_mib)} pieces"
    elif options.command == "take":
        said = take(options.keep, options.source)
    elif options.command == "run":
        run(options.keep, options.minutes)
    elif options.command == "send":
        said = send(options.keep, options.out)
    else:
        said = receive(options.source, options.folder)
    sys.stdout.write(said + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
