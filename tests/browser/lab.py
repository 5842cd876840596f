"""A JupyterLab of the environment that ``scripts/make-browser-env`` makes, and a notebook in it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".web" / "jupyter" / "bin" / "python"
WATCH = Path(__file__).with_name("watch_canvases.js")
START_SECONDS = 60.0
SECONDS = 60.0
"""For what a notebook does."""
MISSING = "There is no JupyterLab: run `make browser`, which installs it."


class Lab:
    """A running JupyterLab that serves one folder. Its token is in no address, argument or message."""

    def __init__(self, folder: Path, address: str, token: str) -> None:
        self.folder = folder
        self.address = address
        self._token = token

    def open(self, context: BrowserContext, notebook: str) -> Notebook:
        """Open a notebook of the folder in a new tab."""
        found = context.request.get(f"{self.address}lab", headers={"Authorization": f"token {self._token}"})
        assert found.ok, found.status  # the context has its cookie now
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.add_init_script(path=WATCH)
        page.goto(f"{self.address}lab/tree/{notebook}?reset")
        opened = Notebook(page)
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        opened.until_idle()
        return opened


class Notebook:
    """A notebook in a tab."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def command(self, name: str, **arguments: Any) -> None:
        """Start a command of JupyterLab."""
        self.page.evaluate("([name, given]) => void jupyterapp.commands.execute(name, given)", [name, arguments])

    def until_idle(self) -> None:
        """Wait for a kernel that has nothing to do."""
        status = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
        until(lambda: self.page.evaluate(status) == "idle", SECONDS, pause=0.1, what="an idle kernel")

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def restart(self) -> None:
        """Restart the kernel, and agree to it."""
        self.command("kernelmenu:restart")
        self.page.locator(".jp-Dialog button.jp-mod-accept").click()

    @property
    def cells(self) -> int:
        return int(self.page.locator(".jp-Notebook .jp-Cell").count())

    def widget(self, number: int = 0) -> Locator:
        """One of the widgets, from above."""
        return self.page.locator(".barrage-widget").nth(number)

    def painted(self, number: int = 0) -> list[str]:
        """The texts that the grid of a widget shows, scrolled into view: what is elsewhere is not painted."""
        canvas = self.widget(number).locator(".surface canvas")
        if canvas.count() == 0:
            return []
        read = "(canvas) => (canvas.scrollIntoView({ block: 'nearest' }), paintedTexts(canvas))"
        texts: list[str] = canvas.evaluate(read)
        return texts

    def errors(self) -> list[str]:
        """What the cells have ended with."""
        kinds = ".jp-OutputArea-output[data-mime-type$='error'], .jp-RenderedText[data-mime-type*='stderr']"
        texts: list[str] = self.page.locator(kinds).all_inner_texts()
        return texts


@contextmanager
def running_lab(folder: Path) -> Iterator[Lab]:
    """Start a JupyterLab on a free port of this machine, and end it with its kernels.

    Args:
        folder: an empty one; what it serves is in its folder ``notebooks``.

    """
    assert PYTHON.exists(), MISSING
    notebooks, runtime = folder / "notebooks", folder / "runtime"
    notebooks.mkdir()
    token = secrets.token_hex(16)
    places = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("RUNTIME", "CONFIG", "DATA")}
    places |= {f"JUPYTERLAB_{name}_DIR": str(folder / "lab" / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    news = folder / "lab" / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false"}')
    environment = os.environ | places | {"JUPYTER_TOKEN": token, "IPYTHONDIR": str(folder / "ipython")}
    environment.pop("PYTHONPATH", None)
    options = [
        "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--no-browser", "--allow-root",
        "--LabApp.expose_app_in_browser=True", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        f"--ServerApp.root_dir={notebooks}",
    ]  # fmt: skip
    log = folder / "lab.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "jupyterlab", *options],
            env=environment,
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        about = runtime / f"jpserver-{process.pid}.json"

        def is_there() -> bool:
            assert process.poll() is None, said(log, token)
            return about.exists() and about.stat().st_size > 0

        until(is_there, START_SECONDS, pause=0.1, what="JupyterLab")
        yield Lab(notebooks, str(json.loads(about.read_text())["url"]), token)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def said(log: Path, token: str) -> str:
    """The end of what JupyterLab has written, without its token."""
    return log.read_text(errors="replace").replace(token, "...")[-3000:]


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook of code cells."""
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": text,
        }
        for number, text in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    path.write_text(
        json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}),
        encoding="utf-8",
    )
