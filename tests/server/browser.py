"""A real Chromium without a window, driven over its own DevTools protocol; no driver is needed."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_S = 30.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # there is no network
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "Home": 36}


class Browser:
    """One page. What it logs as an error, and every address it asks, is kept."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session = ""
        self.errors: list[str] = []
        self.asked: list[str] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    def open(self, url: str) -> None:
        self._send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """The size of the window, and which colours its user likes."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self._send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"never true: {script}; errors: {self.errors}"
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def click(self, selector: str) -> None:
        """With the mouse, in its middle."""
        self.run(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block:'center'}})"
        )
        box = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        self.mouse("mousePressed", *box)
        self.mouse("mouseReleased", *box)

    def mouse(self, kind: str, x: float, y: float) -> None:
        self._send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )

    def press(self, key: str, times: int = 1, *, shift: bool = False) -> None:
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self._send(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    code=key,
                    windowsVirtualKeyCode=KEYS[key],
                    modifiers=8 if shift else 0,
                    **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}),
                )

    def write(self, text: str) -> None:
        """Into whatever has the focus."""
        self._send("Input.insertText", text=text)

    def choose_file(self, selector: str, path: Path) -> None:
        document = self._send("DOM.getDocument")["root"]["nodeId"]
        node = self._send("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self._send("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        shot = self._send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def outside(self, url: str) -> list[str]:
        """What was asked of anybody but one server."""
        own = urlsplit(url).netloc
        return [
            each
            for each in self.asked
            if urlsplit(each).netloc != own and not each.startswith(("data:", "blob:", "about:"))
        ]

    def _send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE_S))
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                words = details.get("exception", {}).get("description", details["text"])
                self.errors.append(words)
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                entry = params["entry"]
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])


@contextlib.contextmanager
def chromium(home: Path) -> Iterator[Browser]:
    """A browser with nothing in it. Skips the test where there is none on this machine."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={home}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            with connect(_address(home, process), max_size=2**26) as socket:
                yield Browser(socket)
        finally:
            with contextlib.suppress(ConnectionClosed):
                process.terminate()
            process.wait(PATIENCE_S)


def _address(home: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens: it writes that down itself."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError):
            port, path = (home / "DevToolsActivePort").read_text("ascii").split()
            return f"ws://127.0.0.1:{port}{path}"
        assert process.poll() is None, "Chromium did not start"
        assert time.monotonic() < deadline, "Chromium did not start in time"
        time.sleep(0.05)
