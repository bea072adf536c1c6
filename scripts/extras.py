"""`python -m scripts.extras`: what each extra adds to the bare package, for docs/guide/install.md.

It adds up the files of what is installed, so run it where every extra is (`pip install -e .[dev]`).
"""

from __future__ import annotations

from edgewise.extras import extra_names, installed_size, lacking


def main() -> None:
    names = extra_names()
    for extra in names:
        missing = lacking(extra)
        size = (
            f"lacks {', '.join(missing)}" if missing else f"{installed_size(extra) / 1e6:,.0f} MB"
        )
        print(f"{extra:<12}{size}")
    print(f"together    {installed_size(*names) / 1e6:,.0f} MB; some share packages")


if __name__ == "__main__":
    main()
