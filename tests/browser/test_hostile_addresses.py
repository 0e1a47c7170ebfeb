"""What is in the address of the page, and what the gateway answers, may be anything: the page never ends up empty."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect

from support.browsers import Complaints, OpenPage

NO_TIMES = ("99999999999999999999", "1.2.3", "-", "1e300")


@pytest.fixture
def run_id(api: httpx.Client) -> str:
    answer = api.post("/runs", json={"flow_name": "hello", "params": {}})
    answer.raise_for_status()
    found: str = answer.json()["run_id"]
    return found


@pytest.mark.parametrize("time", NO_TIMES)
def test_a_filter_by_what_is_no_time_is_shown_with_the_refusal(
    open_page: OpenPage, complaints: Complaints, time: str
) -> None:
    complaints.allow("status of 422")

    page = open_page(f"#/runs?submitted_after={time}")

    expect(page.get_by_role("alert")).to_contain_text("submitted_after: a time is unix seconds")
    page.get_by_role("button", name="Remove").first.click()
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("at", [*NO_TIMES, "99999999999999999999.5"])
def test_a_moment_that_is_none_is_refused_beside_the_present_state(
    open_page: OpenPage, complaints: Complaints, run_id: str, at: str
) -> None:
    complaints.allow("status of 4[02][42]")

    page = open_page(f"#/runs/{run_id}/events?at={at}")

    expect(page.get_by_role("alert")).to_contain_text("at: ")
    expect(page.get_by_role("slider")).to_be_visible()


def test_a_node_that_only_objects_have_is_not_shown(open_page: OpenPage, run_id: str) -> None:
    page = open_page(f"#/runs/{run_id}/graph?node=constructor")

    expect(page.get_by_text("greet").first).to_be_visible()
    expect(page.get_by_label("constructor")).to_have_count(0)


def test_a_view_that_fails_says_so_and_the_others_go_on(open_page: OpenPage, complaints: Complaints) -> None:
    complaints.allow("TypeError")
    page = open_page("#/workers")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")

    # As of a proxy that answers for the gateway.
    page.route("**/overview", lambda route: route.fulfill(json={}))
    page.get_by_role("link", name="Overview").click()

    expect(page.get_by_role("alert")).to_contain_text("This view cannot be shown")
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    page.unroute("**/overview")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_call_to_copy_is_shown_without_characters_that_reorder_it(open_page: OpenPage) -> None:
    page = open_page("#/runs?flow=a%E2%80%AEb%27%24(id)")

    page.get_by_role("button", name="Code").click()

    shown = page.get_by_role("dialog").inner_text()
    assert "\u202e" not in shown
    assert "--flow 'a‹U+202E›b'\\''$(id)'" in shown
