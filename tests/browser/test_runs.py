"""The list of runs: filters, keyboard, live changes that move nothing, and a table of thousands of rows."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Locator, Page, Request, expect

from pyoco_server.http_client import PyocoHttpClient
from support.browsers import Complaints, OpenPage, axe_violations

MANY = 900
ROW = ".virtual-row"
# No worker serves it: its runs stay as they are.
NOWHERE = "nowhere"


def submit(api: httpx.Client, flow: str = "hello", **fields: Any) -> str:
    answer = api.post("/runs", json={"flow_name": flow, **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run_id"])


def finish(api: httpx.Client, *run_ids: str) -> None:
    """Returns when these runs have ended."""
    with PyocoHttpClient(str(api.base_url)) as client:
        for run_id in run_ids:
            client.wait(run_id)


def row_of(page: Page, run_id: str) -> Locator:
    return page.locator(f'[data-run="{run_id}"]')


def ids(page: Page) -> Any:
    return page.locator(ROW).evaluate_all("rows => rows.map(row => row.dataset.run)")


def filter_field(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Add a filter")


@pytest.fixture(scope="session")
def many(deployment: str) -> list[str]:
    """Runs that no worker takes, with a label of their own; the oldest first."""
    with httpx.Client(base_url=deployment, timeout=120.0) as client, ThreadPoolExecutor(4) as threads:
        return sorted(threads.map(lambda _: submit(client, tag=NOWHERE, tags=["many"]), range(MANY)))


def test_filters_are_typed_stand_in_the_address_and_are_removed(
    open_page: OpenPage, api: httpx.Client, complaints: Complaints
) -> None:
    failed = submit(api, "fails", tags=["typed", "filters"])
    passed = submit(api, tags=["typed"])
    finish(api, failed, passed)
    page = open_page("#/runs?tags=typed")
    expect(page.locator(ROW)).to_have_count(2)

    page.keyboard.press("/")
    page.keyboard.type("fail")
    page.get_by_role("option", name="Status Failed").click()
    expect(page.locator(ROW)).to_have_count(1)
    assert "tags=typed" in page.url
    assert "status=FAILED" in page.url
    filter_field(page).fill("ZERO")
    filter_field(page).press("Enter")
    expect(page.get_by_role("button", name="Remove the filter Error contains: ZERO")).to_be_visible()
    expect(row_of(page, failed)).to_be_visible()
    assert ids(page) == [failed]
    page.reload()
    expect(row_of(page, failed)).to_be_visible()
    filter_field(page).fill("filt")
    page.get_by_role("option", name="Label filters").click()
    expect(page.get_by_role("list", name="Filters").get_by_role("button", name=re.compile("Remove the"))).to_have_count(
        4
    )
    page.get_by_role("list", name="Filters").get_by_role("button", name="Remove all").click()
    expect(page).to_have_url(re.compile("#/runs$"))
    page.go_back()
    expect(page).to_have_url(re.compile("status=FAILED"))


def test_an_empty_list_names_the_filter_in_its_way(open_page: OpenPage, api: httpx.Client) -> None:
    run_id = submit(api, tags=["alone"])
    finish(api, run_id)
    page = open_page("#/runs?tags=alone&status=FAILED&flow=hello")

    expect(page.get_by_text("No run matches these filters.")).to_be_visible()
    page.locator(".empty").get_by_role("button", name="Remove the filter Status: Failed").click()

    expect(row_of(page, run_id)).to_be_visible()


def test_the_keyboard_goes_through_the_rows_and_opens_a_run(open_page: OpenPage, many: list[str]) -> None:
    page = open_page("#/runs?tags=many")
    expect(page.locator(ROW).first).to_be_visible()
    newest = ids(page)

    for key in ("j", "j", "ArrowDown", "k"):
        page.keyboard.press(key)
    expect(row_of(page, newest[1]).get_by_role("link")).to_be_focused()
    for _ in range(30):
        page.keyboard.press("j")

    focused = page.evaluate("document.activeElement.closest('[data-run]').dataset.run")
    box, row = page.locator(".runs-table").bounding_box(), row_of(page, focused).bounding_box()
    assert box is not None
    assert row is not None
    assert box["y"] <= row["y"] <= box["y"] + box["height"] - row["height"]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#/runs/{focused}"))
    page.go_back()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next run")


def test_back_from_a_run_the_list_is_where_it_was(open_page: OpenPage, many: list[str]) -> None:
    page = open_page("#/runs?tags=many")
    expect(page.locator(ROW).first).to_be_visible()
    page.locator(".runs-table").evaluate("table => { table.scrollTop = 3000 }")
    link = page.locator(ROW).nth(12).get_by_role("link")
    chosen = link.get_attribute("href")
    link.click()
    expect(page).to_have_url(re.compile(f"{chosen}$"))

    page.go_back()

    expect(page.locator(f'.runs-active a[href="{chosen}"]')).to_be_visible()
    assert page.locator(".runs-table").evaluate("table => table.scrollTop") == 3000


def test_a_long_list_is_loaded_as_it_is_scrolled_and_has_few_rows_in_the_document(
    open_page: OpenPage, many: list[str]
) -> None:
    page = open_page("#/runs?tags=many")
    bodies: list[dict[str, Any]] = []
    page.on("response", lambda response: bodies.append(response.json()) if "/runs?" in response.url else None)
    page.reload()
    expect(page.locator(ROW).first).to_be_visible()

    most = 0
    is_all = False
    while not is_all:
        is_all = page.locator(".runs-end").inner_text() == "No older runs"
        most = max(most, page.locator(ROW).count())
        page.locator(".runs-table").evaluate("""table => {
            table.scrollTop = table.scrollHeight;
            return new Promise(requestAnimationFrame);
        }""")

    expect(row_of(page, many[0])).to_be_visible()
    assert most < 60
    assert page.locator(".runs-table *").count() < 3000
    listed = [run for body in bodies for run in body["items"]]
    assert len({run["run_id"] for run in listed}) == MANY
    assert all({"params", "result", "task_records", "tasks"}.isdisjoint(run) for run in listed)


def test_live_changes_do_not_move_rows_under_the_pointer(open_page: OpenPage, api: httpx.Client) -> None:
    first = submit(api, tag=NOWHERE, tags=["live"])
    second = submit(api, tag=NOWHERE, tags=["live"])
    page = open_page("#/runs?tags=live")
    expect(page.locator(ROW)).to_have_count(2)
    row_of(page, second).hover()

    api.post(f"/runs/{first}/cancel")
    third = submit(api, tag=NOWHERE, tags=["live"])

    expect(row_of(page, first)).to_contain_text("Cancelled")
    expect(page.get_by_role("button", name="1 new or changed")).to_be_visible()
    assert ids(page) == [second, first]
    page.keyboard.press("n")
    expect(row_of(page, third)).to_be_visible()
    assert ids(page) == [third, first, second]

    page.mouse.move(1, 1)
    fourth = submit(api, tag=NOWHERE, tags=["live"])
    expect(row_of(page, fourth)).to_be_visible()
    assert ids(page)[0] == fourth


def test_a_run_that_leaves_the_filter_changes_in_its_place(open_page: OpenPage, api: httpx.Client) -> None:
    run_id = submit(api, tag=NOWHERE, tags=["leaves"])
    page = open_page("#/runs?tags=leaves&status=PENDING")
    expect(row_of(page, run_id)).to_contain_text("Pending")

    api.post(f"/runs/{run_id}/cancel")

    expect(row_of(page, run_id)).to_contain_text("Cancelled")


def test_an_unchanged_list_costs_one_small_request_per_look(open_page: OpenPage, many: list[str]) -> None:
    page = open_page("#/runs?tags=many&id_prefix=" + many[0])
    expect(page.locator(ROW)).to_have_count(1)
    page.evaluate("""() => {
        window.changes = 0;
        new MutationObserver((all) => { window.changes += all.length }).observe(
            document.querySelector('.runs-table'), {subtree: true, childList: true, attributes: true});
    }""")
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))

    with page.expect_response(lambda response: "updated_after" in response.url) as first:
        pass
    with page.expect_response(lambda response: "updated_after" in response.url):
        pass

    assert len(asked) == 2
    assert len(first.value.body()) < 1000
    # Times of rows are texts: no element comes, goes or gets another attribute.
    assert page.evaluate("window.changes") == 0


def test_hostile_names_are_shown_and_do_nothing(open_page: OpenPage, api: httpx.Client) -> None:
    label = submit(api, tag=NOWHERE, tags=["hostile", "<b>bold</b>"])
    flow = submit(api, "<script>alert(1)</script>\u202eevil\u0007" + "長" * 200, tag=NOWHERE, tags=["hostile"])
    page = open_page("#/runs?tags=hostile&error=%E2%80%AEevil%3Cb%3E")
    expect(page.locator(".runs-chip").last).to_contain_text("‹U+202E›evil<b>")

    page = open_page("#/runs?tags=hostile")

    expect(row_of(page, label)).to_contain_text("<b>bold</b>")
    expect(row_of(page, flow)).to_contain_text("<script>alert(1)</script>‹U+202E›evil␇長")
    assert page.locator(".runs-table b, .runs-table script").count() == 0
    heights = page.locator(ROW).evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert len(set(heights)) == 1


def test_two_runs_are_picked_to_be_compared(open_page: OpenPage, api: httpx.Client) -> None:
    runs = [submit(api, tag=NOWHERE, tags=["picked"]) for _ in range(3)]
    page = open_page("#/runs?tags=picked")
    expect(page.locator(ROW)).to_have_count(3)

    place = row_of(page, runs[0]).bounding_box()

    for run_id in runs:
        row_of(page, run_id).get_by_role("checkbox").click()

    expect(page.get_by_role("link", name="Compare the two runs")).to_have_attribute(
        "href", f"#/compare?a={runs[1]}&b={runs[2]}"
    )
    assert row_of(page, runs[0]).bounding_box() == place
    page.keyboard.press("j")
    expect(row_of(page, ids(page)[1]).get_by_role("link")).to_be_focused()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_heads_of_the_columns_are_not_cut(
    language: Literal["en", "ja"], open_page: OpenPage, api: httpx.Client
) -> None:
    submit(api)

    page = open_page("#/runs", language=language, width=1280)

    expect(page.get_by_role("columnheader")).to_have_count(11)
    cut = "heads => heads.filter(head => head.scrollWidth > head.clientWidth).map(head => head.textContent)"
    assert page.get_by_role("columnheader").evaluate_all(cut) == []


def test_columns_are_chosen_and_remembered(open_page: OpenPage, many: list[str]) -> None:
    page = open_page("#/runs?tags=many")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("dialog").get_by_label("Attempt").check()
    page.get_by_role("dialog").get_by_label("Labels").uncheck()
    page.keyboard.press("Escape")

    page.reload()

    expect(page.get_by_role("columnheader", name="Attempt")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Labels")).to_have_count(0)


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_the_list_is_accessible_and_fits(
    open_page: OpenPage,
    many: list[str],
    language: Literal["en", "ja"],
    theme: Literal["light", "dark"],
    width: int,
) -> None:
    page = open_page("#/runs?tags=many&since=30d", language=language, theme=theme, width=width)
    expect(page.locator(ROW).first).to_be_visible()
    assert axe_violations(page) == []

    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option").first).to_be_visible()

    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_a_gateway_that_is_away_leaves_the_rows(open_page: OpenPage, many: list[str], complaints: Complaints) -> None:
    complaints.allow("ERR_FAILED")
    page = open_page("#/runs?tags=many")
    expect(page.locator(ROW).first).to_be_visible()

    page.route("**/runs?*", lambda route: route.abort())
    expect(page.get_by_text("The gateway does not answer.")).to_be_visible()
    expect(page.locator(ROW).first).to_be_visible()
    page.unroute("**/runs?*")

    expect(page.get_by_text("The gateway does not answer.")).to_have_count(0)
