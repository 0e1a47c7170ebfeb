"""Pages of the dashboard in a real Chromium, for tests of what only a browser can show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
# The machine may be busy.
PATIENCE_MS = 30_000
_VIOLATIONS = (
    "document.addEventListener('securitypolicyviolation', (one) => console.error('CSP', one.violatedDirective))"
)
_HIDDEN_SCROLL = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass(slots=True)
class Visit:
    """One visitor: a page with storage of its own, what it has asked for, and what went wrong in it."""

    page: Page
    address: str
    requests: list[Request] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def go(self, place: str = "") -> None:
        """Shows a place of the dashboard: `workers?which=all`."""
        self.page.goto(f"{self.address}/#/{place}")

    def sent(self, method: str, end: str) -> list[Request]:
        """The requests with this method whose path ends so."""
        return [each for each in self.requests if each.method == method and each.url.split("?")[0].endswith(end)]

    def accessibility(self) -> list[str]:
        """The violations that axe finds on the page as it is."""
        found: list[Any] = self.page.evaluate(
            f"{AXE.read_text('utf-8')}; axe.run().then((found) => found.violations.map("
            "(one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`))"
        )
        return found

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        found: int = self.page.evaluate(_HIDDEN_SCROLL)
        return found


@contextmanager
def visiting(browser: Browser, address: str, *, is_japanese: bool = False, **options: Any) -> Iterator[Visit]:
    """A visitor of the dashboard; errors of the page and violations of its policy fail the test at the end."""
    context = browser.new_context(locale="en-GB", **options)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    context.add_init_script(_VIOLATIONS)
    context.add_init_script(f"localStorage.setItem('pyoco.language', '{'ja' if is_japanese else 'en'}')")
    visit = Visit(context.new_page(), address)

    def note(message: ConsoleMessage) -> None:
        # The browser reports every refused request, which a test may well be about.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            visit.errors.append(message.text)

    visit.page.on("console", note)
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    visit.page.on("dialog", lambda dialog: visit.errors.append(f"a script has run: {dialog.message}"))
    visit.page.on("request", lambda request: visit.requests.append(request))
    try:
        yield visit
    finally:
        context.close()
    assert visit.errors == []
