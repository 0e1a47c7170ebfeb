"""Visitors of a dashboard of the test's own gateway: their pages, and what these have asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, Request, expect

from support.browsers import PATIENCE_MS, Complaints, axe_violations


@dataclass(slots=True)
class Visit:
    """One visitor, with storage of its own."""

    page: Page
    address: str
    requests: list[Request] = field(default_factory=list)

    def go(self, place: str = "") -> None:
        """Shows a place of the dashboard: `workers?which=all`."""
        self.page.goto(f"{self.address}/#/{place}")

    def sent(self, method: str, end: str) -> list[Request]:
        """The requests with this method whose path ends so."""
        return [each for each in self.requests if each.method == method and each.url.split("?")[0].endswith(end)]

    def accessibility(self) -> list[str]:
        """The violations that axe finds on the page as it is."""
        return axe_violations(self.page)

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        found: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return found


@contextmanager
def visiting(browser: Browser, address: str, *, is_japanese: bool = False, **options: Any) -> Iterator[Visit]:
    """A visitor of the dashboard; errors of the page, dialogs and violations of its policy fail the test at the end."""
    # axe would measure contrast in the middle of a transition.
    context = browser.new_context(locale="en-GB", reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    complaints = Complaints()
    # The browser reports every refused or lost request, which these tests provoke.
    complaints.allow("Failed to load resource")
    complaints.watch(context)
    if is_japanese:
        context.add_init_script("if (location.protocol === 'http:') localStorage.setItem('pyoco.language', 'ja')")
    visit = Visit(context.new_page(), address)
    alerts: list[str] = []
    visit.page.on("dialog", lambda dialog: alerts.append(dialog.message))
    visit.page.on("request", lambda request: visit.requests.append(request))
    try:
        yield visit
    finally:
        context.close()
    assert complaints.left() == []
    assert alerts == []
