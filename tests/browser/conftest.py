"""One Chromium and one gateway, with broker and worker, for all browser tests of a process.

Tests here are not async: Playwright's blocking API and an event loop exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page

from support.browsers import PATIENCE_MS, Complaints, OpenPage, chromium
from support.programs import address_of, up_with_worker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the gateway runs; its data is in `data`."""
    return tmp_path_factory.mktemp("up")


@pytest.fixture(scope="session")
def deployment(folder: Path) -> Iterator[str]:
    """The address of a gateway with a worker for the flows of tests/e2e/flows.py."""
    with up_with_worker(folder, env={"LANG": "C"}) as program:
        address = address_of(program)
        program.err.wait_for("^then:")
        yield address


@pytest.fixture
def api(deployment: str) -> Iterator[httpx.Client]:
    """A client of that gateway."""
    with httpx.Client(base_url=deployment, timeout=60.0) as client:
        yield client


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Fails the test at its end if a page has complained; `allow` names the errors that the test provokes."""
    found = Complaints()
    yield found
    assert found.left() == []


@pytest.fixture
def open_page(browser: Browser, deployment: str, complaints: Complaints) -> Iterator[OpenPage]:
    """Opens pages of that gateway, and closes them at the end of the test."""
    contexts = []

    def open_one(
        place: str = "",
        *,
        language: Literal["en", "ja"] = "en",
        theme: Literal["light", "dark"] = "light",
        width: int = 1280,
        address: str | None = None,
    ) -> Page:
        context = browser.new_context(
            color_scheme=theme,
            viewport={"width": width, "height": 800},
            # axe would measure contrast in the middle of a transition.
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        complaints.watch(context)
        if language != "en":  # that of the gateway
            # The empty page that comes first has no storage.
            chosen = f"localStorage.setItem('pyoco.language', '{language}')"
            context.add_init_script(f"if (location.protocol === 'http:') {chosen}")
        page = context.new_page()
        page.goto(f"{address or deployment}/{place}")
        return page

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """The first page, in English."""
    return open_page()
