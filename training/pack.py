"""Cut a file into pieces that may travel, and join them again under its SHA-256.

python -m training.pack split base.gguf build/base --piece-mib 47
python -m training.pack join DIRECTORY base.gguf
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path
from threading import get_ident

MIB = 1 << 20


def split(source: Path, folder: Path, piece_bytes: int) -> list[Path]:
    """Write `NAME.partNN` files and `NAME.pieces.json` beside them."""
    data = source.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    pieces = []
    for number, begin in enumerate(range(0, len(data), piece_bytes)):
        piece = folder / f"{source.name}.part{number:02d}"
        piece.write_bytes(data[begin : begin + piece_bytes])
        pieces.append(piece)
    notes = {
        "name": source.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "pieces": [piece.name for piece in pieces],
    }
    (folder / f"{source.name}.pieces.json").write_text(json.dumps(notes))
    return pieces


def missing_pieces(folder: Path, name: str) -> list[str]:
    """Which pieces are not there yet; the notes count as one."""
    notes = folder / f"{name}.pieces.json"
    if not notes.exists():
        return [notes.name]
    return [piece for piece in json.loads(notes.read_text())["pieces"] if not _here(folder, piece)]


def join(folder: Path, name: str, destination: Path) -> None:
    """Raises ValueError when the whole is not what was split; the file appears only complete."""
    notes = json.loads((folder / f"{name}.pieces.json").read_text())
    data = b"".join((folder / piece).read_bytes() for piece in notes["pieces"])
    if hashlib.sha256(data).hexdigest() != notes["sha256"]:
        raise ValueError(f"the joined {name} does not have the SHA-256 of the original")
    # Two processes may join at once: each has its own temporary file.
    temporary = destination.with_name(f"{destination.name}.{os.getpid()}-{get_ident()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, destination)


def _here(folder: Path, piece: str) -> bool:
    return (folder / piece).exists()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cut = commands.add_parser("split")
    cut.add_argument("source", type=Path)
    cut.add_argument("folder", type=Path)
    cut.add_argument("--piece-mib", type=float, default=47)
    glue = commands.add_parser("join")
    glue.add_argument("folder", type=Path)
    glue.add_argument("destination", type=Path)
    options = parser.parse_args()
    if options.command == "split":
        split(options.source, options.folder, int(options.piece_mib * MIB))
    else:
        join(options.folder, options.destination.name, options.destination)


if __name__ == "__main__":
    main()
