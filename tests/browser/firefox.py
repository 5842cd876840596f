"""A Firefox as it is shipped, driven by WebDriver BiDi, which it speaks itself."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from websockets.sync.client import ClientConnection, connect

PLACE = Path(__file__).resolve().parents[2] / ".web" / "firefox"
NAMES = ("firefox-esr", "firefox")
MISSING = (
    "There is no Firefox: install one, name one with FIREFOX=/path/of/firefox, or run `make browser` on Debian, which "
    "unpacks Debian's."
)
PATIENCE = 60.0
# The first start of a profile would open pages, ask questions, and look for updates.
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "app.update.disabledForTesting": True,
    "extensions.systemAddon.update.enabled": False,
    "toolkit.telemetry.server": "data:,",
    "remote.active-protocols": 1,
    "ui.prefersReducedMotion": 1,
}


def find_firefox() -> tuple[str, dict[str, str]]:
    """The one that ``FIREFOX`` names, an installed one, or that of ``scripts/make-browser-env``; and its environment.

    Raises:
        RuntimeError: there is none; the text says what to do.

    """
    if wanted := os.environ.get("FIREFOX", ""):
        return wanted, {}
    for name in NAMES:
        if path := shutil.which(name):
            return path, {}
    if not (PLACE / ".installed").exists():
        raise RuntimeError(MISSING)
    usr = PLACE / "unpacked" / "usr"
    libraries = [folder for folder in (usr / "lib").glob("*-linux-gnu*") if folder.is_dir()]
    return str(usr / "lib" / "firefox-esr" / "firefox-esr"), {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


@contextmanager
def running(profile: Path) -> Iterator[Bidi]:
    """A Firefox with a profile of its own in that folder, and one tab. RuntimeError: there is none that starts."""
    path, environment = find_firefox()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
    command = [path, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    # HOME: what it keeps beside its profile goes with it
    environment = dict(os.environ) | environment | {"HOME": str(profile), "MOZ_HEADLESS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    addresses: Queue[str] = Queue()
    reader = threading.Thread(target=_read, args=(process, addresses), daemon=True)
    reader.start()
    try:
        address = addresses.get(timeout=PATIENCE)
        if not address:
            raise RuntimeError(f"{path} does not start: it lacks a library, or is none.")
        with connect(f"{address}/session", max_size=None, open_timeout=PATIENCE, proxy=None) as socket:
            yield Bidi(socket)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        reader.join()


def _read(process: subprocess.Popen[str], addresses: Queue[str]) -> None:
    """Take what the browser says until it ends; the address of its protocol is said once."""
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line):
                addresses.put(found[1])
    addresses.put("")


class Bidi:
    """A session with one tab. It offers what :class:`~tests.browser.tab.Tab` needs of a page.

    Attributes:
        problems: errors and warnings on the console.

    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        self.version = self._call("session.new", capabilities={})["capabilities"]["browserVersion"]
        self._tab = self._call("browsingContext.getTree")["contexts"][0]["context"]
        self._call("session.subscribe", events=["log.entryAdded"])

    def add_init_script(self, script: str) -> None:
        """Run a script in each page before its own."""
        self._call("script.addPreloadScript", functionDeclaration=f"() => {{ {script} }}")

    def set_viewport_size(self, size: dict[str, int]) -> None:
        self._call("browsingContext.setViewport", context=self._tab, viewport=size)

    def goto(self, url: str) -> None:
        self._call("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, which must be one of JSON."""
        found = self._call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify([(await ({expression})) ?? null]))()",
            target={"context": self._tab},
            awaitPromise=True,
        )
        if found["type"] != "success":
            raise AssertionError(f"{expression[:100]}: {found['exceptionDetails']['text']}")
        return json.loads(found["result"]["value"])[0]

    def wheel(self, x: float, y: float, down: int) -> None:
        """Turn the wheel over a place of the page."""
        turn = {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": down}
        self._perform({"type": "wheel", "id": "wheel", "actions": [turn]})

    def press(self, *keys: str) -> None:
        """Press keys, by the characters of WebDriver."""
        actions = [{"type": what, "value": key} for key in keys for what in ("keyDown", "keyUp")]
        self._perform({"type": "key", "id": "keyboard", "actions": actions})

    def click(self, x: float, y: float) -> None:
        """Click at a place of the page."""
        actions = [
            {"type": "pointerMove", "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._perform({"type": "pointer", "id": "mouse", "actions": actions})

    def _perform(self, source: dict[str, Any]) -> None:
        self._call("input.performActions", context=self._tab, actions=[source])

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("method") == "log.entryAdded":
                self._note(message["params"])
            elif message.get("id") == number:
                if message["type"] == "error":
                    raise AssertionError(f"{method}: {message['error']}: {message['message']}")
                return message["result"]

    def _note(self, entry: dict[str, Any]) -> None:
        if entry["level"] in ("error", "warn"):
            self.problems.append(str(entry["text"]))
