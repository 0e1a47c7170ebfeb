"""The overview and the flows: numbers that link to lists, charts with a table beside them, and an empty server."""

from __future__ import annotations

import re
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from pyoco_server.http_client import PyocoHttpClient
from support.browsers import Complaints, OpenPage, axe_violations

# No worker serves it: its runs stay as they are.
UNSERVED = "nobody-here"
NO_RUNS = {"PENDING": 0, "RUNNING": 0, "CANCELLING": 0, "COMPLETED": 0, "FAILED": 0, "CANCELLED": 0}


@pytest.fixture(scope="session")
def finished(deployment: str) -> str:
    """A completed run of the flow hello, and one that waits for a worker."""
    with PyocoHttpClient(deployment) as client:
        client.submit_run("hello", tag=UNSERVED)
        run_id = client.submit_run("hello")["run_id"]
        client.wait(run_id)
        return run_id


def overflow(page: Page) -> int:
    found: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


def test_every_count_links_to_its_list(finished: str, page: Page) -> None:
    tile = page.locator(".tile", has_text="Pending")
    expect(tile.locator(".number")).not_to_have_text("0")
    tile.click()
    expect(page).to_have_url(re.compile(r"#/runs\?status=PENDING$"))


def test_a_queue_without_a_worker_says_so(finished: str, page: Page) -> None:
    row = page.get_by_role("row", name=re.compile(UNSERVED))
    expect(row).to_contain_text("No worker")

    row.get_by_role("link").first.click()

    expect(page).to_have_url(re.compile(rf"#/runs\?status=PENDING&tag={UNSERVED}$"))


def test_charts_have_a_range_in_the_address_and_their_values_as_a_table(finished: str, page: Page) -> None:
    expect(page.locator(".chart canvas")).to_have_count(2)
    page.get_by_role("link", name="30 days").click()
    expect(page).to_have_url(re.compile(r"\?range=30d$"))
    expect(page.get_by_role("heading", name="Runs per 6 hours")).to_be_visible()

    page.get_by_text("Show as a table").first.click()

    submitted = page.get_by_role("table", name="Runs per 6 hours").locator("tbody tr").first.locator("td").first
    expect(submitted).to_have_text(re.compile("[1-9]"))


def test_a_range_longer_than_the_retention_says_so(finished: str, open_page: OpenPage) -> None:
    def keep_an_hour(route: Route) -> None:
        answer: dict[str, Any] = route.fetch().json()
        route.fulfill(json=answer | {"retention_sec": 3600.0, "kept_since": answer["taken_at"] - 3600})

    page = open_page()
    page.route("**/stats?*", keep_an_hour)
    page.get_by_role("link", name="7 days").click()

    expect(page.get_by_text("Finished runs are kept for 1 hour.")).to_be_visible()


def test_an_empty_server_shows_how_to_submit_the_first_run(open_page: OpenPage, deployment: str) -> None:
    page = open_page()
    page.route("**/overview", lambda route: route.fulfill(json=route.fetch().json() | {"runs": NO_RUNS}))

    expect(page.get_by_text("There are no runs yet.")).to_be_visible()
    expect(page.get_by_text(f"pyoco-client --server {deployment} submit hello --watch")).to_be_visible()


def test_while_the_broker_is_away_the_page_says_so_and_keeps_the_last_numbers(
    finished: str, page: Page, complaints: Complaints
) -> None:
    complaints.allow("503")
    expect(page.locator(".tile").first).to_be_visible()
    problem = {"detail": "the broker does not answer", "err_id": "ERR-PYOCO-0003", "hint": "start it"}
    page.route("**/overview", lambda route: route.fulfill(status=503, json=problem))

    expect(page.get_by_text("the broker does not answer")).to_be_visible()
    expect(page.locator(".tile").first).to_be_visible()


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("place", ["#/?range=24h", "#/flows", "#/flows/hello"])
def test_the_views_are_accessible_and_fit(
    finished: str, open_page: OpenPage, place: str, language: Literal["en", "ja"], theme: Literal["light", "dark"]
) -> None:
    page = open_page(place, language=language, theme=theme, width=320)

    ready = page.get_by_role("rowheader", name="hello") if place == "#/flows" else page.locator(".chart canvas").last
    expect(ready).to_be_visible()
    assert axe_violations(page) == []
    assert overflow(page) == 0


def test_a_flow_is_found_in_the_list_and_shows_its_runs(finished: str, open_page: OpenPage) -> None:
    page = open_page("#/flows")
    page.get_by_label("Name begins with").fill("hel")
    expect(page).to_have_url(re.compile("q=hel"))
    mark = page.locator(f'.run-mark[href="#/runs/{finished}"]')
    expect(mark).to_have_attribute("title", re.compile("^Completed "))

    page.get_by_role("link", name="hello", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("hello")
    expect(page.get_by_role("link", name=finished)).to_be_visible()
    page.get_by_role("button", name="Submit a run").click()
    expect(page.get_by_role("dialog")).to_contain_text("submit --flow-name hello")


def test_an_unknown_flow_with_a_hostile_name_is_text(open_page: OpenPage, complaints: Complaints) -> None:
    complaints.allow("404")
    page = open_page("#/flows/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%E2%80%AE")

    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=alert(1)>‹U+202E›")
    expect(page.get_by_text("no running worker announces the flow").first).to_be_visible()


def test_only_summaries_are_asked_for(finished: str, api: httpx.Client) -> None:
    shown = api.get("/overview")
    stats = api.get("/stats", params={"points": 120})

    assert len(shown.content) < 20_000
    assert len(stats.content) < 30_000
