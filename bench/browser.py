"""A headless Chromium for pictures and figures of the dashboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from bench.connection import StepFailed
from support.browsers import ARGUMENTS


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine, closed at the end."""
    path = shutil.which("chromium")
    if path is None:
        raise StepFailed("chromium is not installed; scripts/ci-packages installs it on Debian")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
