from __future__ import annotations

import re
from importlib import resources

from edgewise.server.dashboard import KINDS
from tests.server.conftest import Serving
from tests.server.served import Served

FOLDER = resources.files("edgewise.server.dashboard") / "static"


def test_the_page_comes_without_a_key_but_never_for_another_host(serving: Serving) -> None:
    served = serving(key="secret")
    answer = served.http.get("/")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert served.http.get("/", headers={"host": "evil.example"}).status_code == 403
    assert served.http.post("/").status_code == 405


def test_every_file_is_served_as_what_it_is_and_nothing_else_is(served: Served) -> None:
    for each in FOLDER.iterdir():
        answer = served.http.get(f"/dashboard/{each.name}")
        assert answer.status_code == 200, each.name
        assert answer.headers["content-type"] == KINDS[each.name.rpartition(".")[2]]
        assert answer.content == each.read_bytes()
        tag = {"if-none-match": answer.headers["etag"]}
        assert served.http.get(f"/dashboard/{each.name}", headers=tag).status_code == 304
    for name in ("nothing.js", "..%2fpage.py", "page.py", "%2e%2e/page.py"):
        assert served.http.get(f"/dashboard/{name}").status_code == 404


def test_the_browser_is_told_to_run_nothing_but_these_files(served: Served) -> None:
    policy = served.http.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert served.http.get("/").headers["x-content-type-options"] == "nosniff"


def test_the_files_name_no_other_host_and_hold_no_inline_script() -> None:
    for each in FOLDER.iterdir():
        text = each.read_text("utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, each.name
        assert "innerHTML" not in text, each.name
    page = (FOLDER / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son[a-z]+=|\sstyle=|<style", page)
