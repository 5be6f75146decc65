"""A page in headless Chromium, driven through a pipe by its own debugging protocol: nothing else to install."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

FOUND = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio")


class Page:
    """One tab. `say` what the protocol knows; `run` JavaScript and get its value."""

    def __init__(self, heard: IO[bytes], said: IO[bytes]) -> None:
        self._in, self._out = heard, said
        self._loaded = False
        self.complaints: list[str] = []
        self._numbers = itertools.count(1)
        self._session = ""
        target = self.say("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.say("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Performance", "Log", "Runtime"):
            self.say(f"{domain}.enable")

    def say(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        answer = self._until(lambda heard: heard.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def open(self, path: Path) -> None:
        """Load a file, to its load event."""
        self.complaints = []
        self._loaded = False
        self.say("Page.navigate", url=path.resolve().as_uri())
        if not self._loaded:
            self._until(lambda heard: heard.get("method") == "Page.loadEventFired")

    def run(self, expression: str) -> Any:
        """The value of an expression, a promise's when it is settled."""
        told = self.say("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(json.dumps(told["exceptionDetails"])[:2000])
        return told["result"].get("value")

    def type(self, text: str) -> None:
        for character in text:
            self.say("Input.dispatchKeyEvent", type="keyDown", text=character, key=character)
            self.say("Input.dispatchKeyEvent", type="keyUp", key=character)

    def press(self, key: str, code: int, text: str = "") -> None:
        more = {"text": text} if text else {}
        self.say("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **more)
        self.say("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """The size of the window in CSS pixels, and what colours the reader prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.say("Emulation.setDeviceMetricsOverride", **size)
        self.say("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self) -> bytes:
        return base64.b64decode(self.say("Page.captureScreenshot", format="png")["data"])

    def metrics(self) -> dict[str, float]:
        return {entry["name"]: entry["value"] for entry in self.say("Performance.getMetrics")["metrics"]}

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            heard = self._hear()
            if wanted(heard):
                return heard

    def _hear(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("Chromium has gone")
            data += byte
        heard = dict(json.loads(data))
        if heard.get("method") == "Page.loadEventFired":
            self._loaded = True
        if heard.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(heard["params"]))
        return heard


@contextmanager
def chromium() -> Iterator[Page]:
    """A browser of its own, gone afterwards."""
    to_browser, from_browser = os.pipe(), os.pipe()

    def connect() -> None:
        reading, writing = os.dup(to_browser[0]), os.dup(from_browser[1])
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    with TemporaryDirectory(prefix="mlcheck-chromium-", ignore_cleanup_errors=True) as profile:
        command = [FOUND, *_OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=connect
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            with os.fdopen(from_browser[0], "rb") as heard, os.fdopen(to_browser[1], "wb", buffering=0) as said:
                yield Page(heard, said)
        finally:
            process.kill()
            process.wait()
