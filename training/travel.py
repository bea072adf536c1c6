"""Write a base as small as the trainer can use it: nothing twice, every byte as it was.

    python -m training.travel model.gguf qwen.gguf

Some files hold the matrix of words twice; only the finer one stays, as the one for both ends.
llama.cpp reads the result, and adapters merge into it as they do into the original.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from training.base_weights import GgufFile, tied_names
from training.export import ALIGNMENT, StoredTensor, write_stored


def write_travelling(source: Path, out: Path) -> None:
    file = GgufFile(source)
    if int(file.metadata.get("general.alignment", ALIGNMENT)) != ALIGNMENT:
        raise ValueError(f"{source.name} is not aligned to {ALIGNMENT} bytes")
    tensors = []
    for name, stored in tied_names(file).items():
        entry = file.entries[stored]
        tensors.append(StoredTensor(name, entry.shape, entry.kind, file.raw(stored)))
    write_stored(out, len(file.metadata), file.packed_keys(), tensors)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args(arguments)
    write_travelling(options.source, options.out)
    before, after = options.source.stat().st_size, options.out.stat().st_size
    sys.stdout.write(f"{options.out.name}: {after:,} bytes of {before:,}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
