"""Build the site of docs/, and check every link on the way: `python scripts/docs_site.py [FOLDER]`.

The pages are written for people who read the repository. Three things are done to a copy of them:

- The navigation is made from the tables of docs/README.md, so a page is entered once.
- A link to a file outside docs/ becomes the path of that file, because the site does not hold it.
- The page of the public names gets their signatures and members, from their docstrings.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def navigation(index: str) -> list[Any]:
    """`## Group` and `| [Title](page.md) | …` as Zensical wants them."""
    groups: list[Any] = [{"Start": "README.md"}]
    for heading, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", index, re.M | re.S):
        rows = re.findall(r"^\| \[([^\]]+)\]\(([^)#]+\.md)\)", body, re.M)
        groups.append({heading: [{title: page} for title, page in rows]})
    return groups


def for_the_site(markdown: str, here: Path) -> str:
    """A page of the folder `here`, with its links as the site can follow them."""
    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.M | re.S)  # code stays as it is
    link = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
    return "".join(
        part if number % 2 else link.sub(lambda found: _link(found, here), part)
        for number, part in enumerate(parts)
    )


def _link(found: re.Match[str], here: Path) -> str:
    words, target = found.groups()
    name = target.partition("#")[0]
    path = Path(os.path.normpath(here / name))
    if not name or ":" in name or (path.is_relative_to(DOCS) and not path.is_dir()):
        return found[0]
    if path.is_relative_to(DOCS):
        return f"[{words}]({name.rstrip('/')}/README.md)"
    place = path.relative_to(ROOT).as_posix()
    return f"`{place}`" if words.strip("`") in place else f"{words} (`{place}`)"


def signatures() -> str:
    """What makes mkdocstrings write out every public name."""
    names = (ROOT / "src" / "edgewise" / "__init__.pyi").read_text("utf-8")
    lines = ["", "## Signatures", ""]
    for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", names, re.M):
        lines += [f"::: {home}.{name}"]
        if name.endswith("Options"):  # most of an option's fields are those of its base
            lines += ["    options:", "      inherited_members: true"]
        lines += [""]
    return "\n".join(lines)


def stage(folder: Path) -> Path:
    """Copy the pages into `folder`, and write the settings beside them."""
    pages = folder / "pages"
    shutil.copytree(DOCS, pages)
    for path in pages.rglob("*.md"):
        here = DOCS / path.relative_to(pages).parent
        path.write_text(for_the_site(path.read_text("utf-8"), here), "utf-8")
    with (pages / "reference" / "python.md").open("a", encoding="utf-8") as page:
        page.write(signatures())
    settings = (ROOT / "scripts" / "docs_site.yml").read_text("utf-8")
    nav = json.dumps(navigation((DOCS / "README.md").read_text("utf-8")))
    file = folder / "mkdocs.yml"
    settings = settings.replace("SOURCE", json.dumps(str(ROOT / "src")))
    file.write_text(f"{settings}docs_dir: pages\nsite_dir: site\nnav: {nav}\n", "utf-8")
    return file


def build(folder: Path) -> None:
    """Build in strict mode: a link or an anchor that leads nowhere is an error."""
    zensical = Path(sysconfig.get_path("scripts")) / "zensical"
    with tempfile.TemporaryDirectory() as staged:
        subprocess.run([zensical, "build", "--strict", "-f", stage(Path(staged))], check=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(Path(staged) / "site", folder)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site"))
