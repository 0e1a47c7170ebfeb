"""Pages of the dashboard in a real Chromium, and what they complain about."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from support.programs import ROOT

# On Ubuntu `chromium` may be a script that asks for a snap, so it has to tell its version.
NAMES = ("chromium", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Pages are slow while other tests run.
PATIENCE_MS = 60_000
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
DASHBOARD = ROOT / "src" / "pyoco_server" / "http_api" / "dashboard_files" / "index.html"

_NOTE_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => console.error(
    `securitypolicyviolation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`
));
"""


class OpenPage(Protocol):
    """Opens a page of the dashboard in a profile of its own: `open_page("#/runs", language="ja", theme="dark")`."""

    def __call__(
        self,
        place: str = "",
        *,
        language: Literal["en", "ja"] = "en",
        theme: Literal["light", "dark"] = "light",
        width: int = 1280,
        address: str | None = None,
    ) -> Page: ...


def skip_or_fail(why: str) -> None:
    """Skips the test, or fails it where CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def _chromium() -> str:
    for name in NAMES:
        found = shutil.which(name)
        if found and b"." in subprocess.run([found, "--version"], capture_output=True, check=False).stdout:
            return found
    skip_or_fail("there is no Chromium; `scripts/test browser` as root on Debian installs it")
    raise AssertionError


@contextmanager
def chromium() -> Iterator[Browser]:
    if not (DASHBOARD.is_file() and AXE.is_file()):
        skip_or_fail("the dashboard is not built; `scripts/dashboard build` builds it")
    executable = _chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Complaints:
    """Errors on the consoles of pages: exceptions, failed requests, and what the Content-Security-Policy refuses."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._allowed: list[str] = []

    def allow(self, *patterns: str) -> None:
        """Errors of the test's own making: "status of 401"."""
        self._allowed += patterns

    def watch(self, context: BrowserContext) -> None:
        context.add_init_script(_NOTE_VIOLATIONS)
        context.on("console", self._note_console)
        context.on("weberror", lambda error: self._found.append(f"exception: {error.error}"))

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._found.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def left(self) -> list[str]:
        return [one for one in self._found if not any(re.search(pattern, one) for pattern in self._allowed)]


def axe_violations(page: Page) -> list[str]:
    """What axe-core finds on the page, one line per element."""
    page.evaluate(AXE.read_text("utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']} ({violation['impact']}): {violation['help']}: {node['html'][:200]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
