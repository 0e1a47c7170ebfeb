"""The view of a run and the comparison of two: graph, timeline, events, params and results, live and at a moment."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from e2e.flows import HOSTILE_NAME
from support.browsers import PATIENCE_MS, Complaints, OpenPage, axe_violations
from support.executions import NEXT, NODE, PAIR, WORKER, Caller
from support.processes import port_of, reserve_port
from support.programs import until
from support.tcp_proxy import TcpProxy

TABS = ("graph", "timeline", "events", "data")
LARGE = {
    "nodes": [f"node-{place:04}" for place in range(2000)],
    "edges": [
        [f"node-{(column - 1) * 50 + (row + shift) % 50:04}", f"node-{column * 50 + row:04}"]
        for column in range(1, 40)
        for row in range(50)
        for shift in (0, 7, 21)
    ],
}
expect.set_options(timeout=PATIENCE_MS)

FINISHED = ("COMPLETED", "FAILED", "CANCELLED")

Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def submit(api: httpx.Client) -> Submit:
    """Submits a run and waits for its end."""

    def submit_one(flow_name: str, **params: Any) -> dict[str, Any]:
        response = api.post("/runs", json={"flow_name": flow_name, "params": params})
        assert response.status_code == 200, response.text
        path = f"/runs/{response.json()['run_id']}?include=records"
        ended: dict[str, Any] = until(lambda: api.get(path).json(), lambda run: run["status"] in FINISHED)
        return ended

    return submit_one


@pytest.fixture
def caller(api: httpx.Client) -> Caller:
    return Caller(api)


@pytest.fixture
def large(caller: Caller) -> str:
    """A started execution of 2,000 nodes."""
    caller.put("large", LARGE)
    return caller.create("large", "start")


def node_rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Nodes").get_by_role("button")


def overflow(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


# --- graph ------------------------------------------------------------------------------------------------------------


def test_a_run_of_a_flow_is_a_graph_with_the_states_of_its_tasks(open_page: OpenPage, submit: Submit) -> None:
    run = submit("fan", count=3)

    page = open_page(f"#/runs/{run['run_id']}")

    expect(page.get_by_text("Nodes: 4, edges: 4")).to_be_visible()
    expect(node_rows(page)).to_have_text(["numbers✓Succeeded", "total✓Succeeded", re.compile("img"), "join✓Succeeded"])
    expect(page.locator("canvas")).to_be_visible()
    node_rows(page).nth(1).click()
    details = page.get_by_role("complementary", name="total")
    expect(details).to_contain_text("Output")
    expect(details).to_contain_text("6")
    expect(page).to_have_url(re.compile("node=total"))


def test_names_and_values_from_outside_are_texts_and_do_nothing(
    open_page: OpenPage, submit: Submit, complaints: Complaints
) -> None:
    run = submit("fan", **{"count": 3, "\u202e<b>bold</b>": "<script>alert(1)</script>"})

    for tab in TABS:
        page = open_page(f"#/runs/{run['run_id']}/{tab}")
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        if tab == "data":
            page.get_by_text("\u2039U+202E\u203a<b>bold</b>").wait_for()
        else:
            page.get_by_text("\u2039U+202E\u203a<img src=x onerror=alert(1)>").first.wait_for()

        assert page.evaluate("document.querySelectorAll('main img, main b, main script').length") == 0
        assert "\u202e" not in page.locator("main").inner_text()
        page.close()
    assert complaints.left() == []
    assert HOSTILE_NAME in run["tasks"]


def test_a_graph_changes_with_its_run(open_page: OpenPage, caller: Caller) -> None:
    caller.put("live", PAIR)
    execution = caller.create("live", "start")
    page = open_page(f"#/runs/{execution}?node={NODE}")
    expect(node_rows(page)).to_have_text([f"{NODE}○Pending", f"{NEXT}○Pending"])

    caller.done(execution, "node start", "node progress")

    expect(node_rows(page).first).to_have_text(f"{NODE}▶Running")
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "42")
    expect(page.locator(".run-facts > div").filter(has_text="Progress")).to_contain_text("42%")
    caller.done(execution, "node wait")
    expect(node_rows(page).first).to_have_text(f"{NODE}‖Waiting")
    expect(page.get_by_role("heading", name="Why")).to_be_visible()
    approvals = page.locator(".notice").get_by_role("link", name="To the approvals")
    expect(approvals).to_have_attribute("href", "#/approvals")
    caller.done(execution, "node resume", "node success")
    caller.done(execution, "node start", "node success", node=NEXT)
    expect(page.locator(".run-title .status")).to_have_text("✓Completed")
    expect(node_rows(page)).to_have_text([f"{NODE}✓Succeeded", f"{NEXT}✓Succeeded"])


def test_two_thousand_nodes_are_laid_out_in_a_worker_and_mostly_not_in_the_document(
    open_page: OpenPage, large: str
) -> None:
    page = open_page()
    workers: list[str] = []
    page.on("worker", lambda worker: workers.append(worker.url))

    page.goto(page.url.split("#")[0] + f"#/runs/{large}")

    expect(page.locator("canvas")).to_be_visible()
    expect(page.get_by_text("Nodes: 2,000, edges: 5,850")).to_be_visible()
    assert [bool(re.search(r"/static/layout\.worker-.*\.js$", url)) for url in workers] == [True]
    assert page.evaluate("document.querySelectorAll('*').length") < 600
    page.get_by_role("searchbox", name="Find a node").fill("1234")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="node-1234")).to_be_visible()
    expect(node_rows(page)).to_have_count(1)


def test_a_graph_can_be_used_with_the_keyboard_only(open_page: OpenPage, caller: Caller) -> None:
    caller.put("keys", {"nodes": ["a", "b", "c"], "edges": [["a", "b"], ["a", "c"]]})
    page = open_page(f"#/runs/{caller.create('keys', 'start')}")
    canvas = page.get_by_role("application")
    expect(canvas).to_be_visible()
    page.get_by_role("searchbox", name="Find a node").focus()

    for _ in range(20):
        page.keyboard.press("Tab")
        if canvas.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")

    expect(page.get_by_role("complementary", name="c")).to_be_visible()
    page.keyboard.press("+")
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Zoom in")).to_be_focused()


# --- why, errors, attempts --------------------------------------------------------------------------------------------


def test_a_failed_run_says_why_and_what_to_do(open_page: OpenPage, submit: Submit) -> None:
    run = submit("fails")

    page = open_page(f"#/runs/{run['run_id']}/data")

    expect(page.get_by_role("heading", name="Why")).to_be_visible()
    expect(page.get_by_text("pyoco-client tasks")).to_be_visible()
    letters = page.get_by_role("link", name="Dead letter", exact=True)
    expect(letters).to_have_attribute("href", "#/dead-letters?flow=fails")
    expect(page.locator(".run-error")).to_contain_text("division by zero")
    page.locator("summary", has_text="divide").click()
    expect(page.get_by_text("Traceback (most recent call last)")).to_be_visible()


def test_a_run_that_waits_says_why(open_page: OpenPage, api: httpx.Client) -> None:
    run_id = api.post("/runs", json={"flow_name": "hello", "tag": "unserved"}).json()["run_id"]

    page = open_page(f"#/runs/{run_id}", language="ja")

    expect(page.get_by_text("pyoco-worker --tags unserved")).to_be_visible()
    expect(page.get_by_role("heading", name="理由")).to_be_visible()
    api.post(f"/runs/{run_id}/cancel").raise_for_status()
    expect(page.locator(".run-title .status")).to_have_text("⊘取消済み")


def test_each_attempt_of_a_task_has_a_bar(open_page: OpenPage, submit: Submit, tmp_path: Path) -> None:
    run = submit("unsteady", path=str(tmp_path / "tries"))

    page = open_page(f"#/runs/{run['run_id']}/timeline")

    expect(page.locator(".timeline-attempt.timeline-failed")).to_have_count(2)
    expect(page.locator(".timeline-lane .timeline-attempt.timeline-succeeded")).to_have_count(1)


def test_the_lanes_in_sight_only_are_in_the_document(open_page: OpenPage, caller: Caller, large: str) -> None:
    caller.done(large, "node start", node="node-0007")

    page = open_page(f"#/runs/{large}/timeline")

    lanes = page.get_by_role("list", name="Tasks over time").get_by_role("listitem")
    expect(lanes.first).to_contain_text("node-0007")
    expect(lanes.first).to_have_attribute("aria-setsize", "2000")
    assert lanes.count() < 60


def test_the_bars_of_a_cancelled_run_end_with_it(open_page: OpenPage, api: httpx.Client, submit: Submit) -> None:
    run_id = api.post("/runs", json={"flow_name": "listens"}).json()["run_id"]
    path = f"/runs/{run_id}?include=records"
    page = open_page(f"#/runs/{run_id}/timeline")
    expect(page.locator(".timeline-lane .timeline-running")).to_have_count(1)

    api.post(f"/runs/{run_id}/cancel", json={"reason": "wrong day"}).raise_for_status()
    run = until(lambda: api.get(path).json(), lambda one: one["status"] == "CANCELLED")

    bar = page.locator(".timeline-lane .timeline-cancelled")
    expect(bar).to_have_count(1)
    expect(page.locator(".timeline-running:not(.timeline-swatch)")).to_have_count(0)
    started = run["task_records"]["wait"]["started_at"]
    share = (run["end_time"] - started) / (run["end_time"] - run["start_time"])
    assert float(bar.evaluate("element => parseFloat(element.style.width)")) == pytest.approx(100 * share, abs=0.1)
    expect(page.get_by_text("wrong day")).to_be_visible()
    expect(page.get_by_text("the flow stopped by itself")).to_be_visible()


# --- moments, events --------------------------------------------------------------------------------------------------


def test_the_slider_shows_the_run_at_any_moment(open_page: OpenPage, submit: Submit) -> None:
    run = submit("fan", count=3)
    page = open_page(f"#/runs/{run['run_id']}/graph")
    expect(node_rows(page).first).to_have_text("numbers✓Succeeded")

    page.get_by_role("slider").focus()
    page.keyboard.press("Home")

    expect(page.get_by_text("Shown is the run as it was at")).to_be_visible()
    expect(page.locator(".run-title .status")).to_have_text("○Pending")
    expect(node_rows(page).first).to_have_text("numbers○Pending")
    page.get_by_role("button", name="Back to the present").click()
    expect(node_rows(page).first).to_have_text("numbers✓Succeeded")


def test_events_are_read_by_pages_from_either_end_and_of_one_node(open_page: OpenPage, large: str) -> None:
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/events?" in request.url else None)
    page.goto(page.url.split("#")[0] + f"#/runs/{large}/events")
    rows = page.get_by_role("list", name="Events").get_by_role("button")

    expect(page.get_by_text("Events loaded: 200+")).to_be_visible()
    expect(rows.first).to_contain_text("NODE_READY")
    assert rows.count() < 60
    page.get_by_label("Order").select_option("asc")
    expect(rows.first).to_contain_text("EXECUTION_CREATED")
    page.get_by_role("list", name="Events").evaluate("list => { list.scrollTop = 190 * 36 }")
    expect(page.get_by_text("Events loaded: 400+")).to_be_visible()
    assert rows.count() < 60
    page.get_by_label("Task", exact=True).fill("node-0003")
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("Events loaded: 2$"))).to_be_visible()
    assert max(int(re.search(r"limit=(\d+)", url)[1]) for url in asked) <= 200  # type: ignore[index]


def test_an_event_shows_its_payload_and_the_run_at_its_moment(open_page: OpenPage, caller: Caller) -> None:
    caller.put("told", PAIR)
    execution = caller.create("told", "start", "node start", "node success")
    page = open_page(f"#/runs/{execution}/events?nodeId={NODE}&order=asc")

    page.get_by_role("button", name="NODE_STARTED").click()
    dialog = page.get_by_role("dialog")

    expect(dialog).to_contain_text(WORKER)
    dialog.get_by_role("button", name="Show the run at this event").click()
    expect(page.get_by_text("Shown is the run as it was at")).to_be_visible()
    page.get_by_role("link", name="Graph").click()
    expect(node_rows(page).first).to_have_text(f"{NODE}▶Running")


# --- params and results -----------------------------------------------------------------------------------------------


def test_large_values_are_closed_and_can_be_searched(open_page: OpenPage, caller: Caller) -> None:
    caller.put("values", {"nodes": [NODE], "edges": []})
    big = {"rows": [{"id": number, "note": "needle" if number == 417 else ""} for number in range(900)]}
    execution = caller.create("values", input=big)
    page = open_page(f"#/runs/{execution}/data")
    params = page.locator("section", has=page.get_by_role("heading", name="Params", exact=True))

    expect(params.get_by_text("[900]")).to_be_visible()
    expect(params.get_by_text("needle")).to_have_count(0)
    params.get_by_role("searchbox").fill("NEEDLE")

    expect(params.get_by_text('"needle"')).to_be_visible()
    expect(params.get_by_text("1 of 1")).to_be_visible()
    with page.expect_download() as download:
        params.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == f"params-{execution}.json"


# --- connection -------------------------------------------------------------------------------------------------------


@contextmanager
def breakable(address: str) -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """A way to the gateway, a function that interrupts it, and one that restores it."""

    loop: asyncio.AbstractEventLoop
    proxy: TcpProxy
    is_open, is_over = threading.Event(), threading.Event()

    async def pass_on() -> None:
        nonlocal loop, proxy
        async with TcpProxy(address) as opened:
            loop, proxy = asyncio.get_running_loop(), opened
            is_open.set()
            await asyncio.to_thread(is_over.wait)

    def interrupt() -> None:
        with reserve_port() as unused:
            proxy.lead_to(f"http://127.0.0.1:{port_of(unused)}")
        loop.call_soon_threadsafe(proxy.cut)

    passing = threading.Thread(target=lambda: asyncio.run(pass_on()))
    passing.start()
    assert is_open.wait(30)
    try:
        yield proxy.url.replace("nats:", "http:"), interrupt, lambda: proxy.lead_to(address)
    finally:
        is_over.set()
        passing.join()


def test_a_lost_connection_is_said_and_resumes(
    open_page: OpenPage, deployment: str, caller: Caller, complaints: Complaints
) -> None:
    complaints.allow("ERR_", "Failed to load resource")
    caller.put("lost", PAIR)
    execution = caller.create("lost", "start")
    with breakable(deployment) as (address, interrupt, restore):
        page = open_page(f"#/runs/{execution}", address=address)
        expect(node_rows(page).first).to_have_text(f"{NODE}○Pending")

        asked: list[str | None] = []
        page.on("request", lambda one: asked.append(one.headers.get("last-event-id")) if "/watch" in one.url else None)
        interrupt()
        expect(page.get_by_text("The connection is lost")).to_be_visible()
        caller.done(execution, "node start")
        restore()

        expect(page.get_by_text("Connected again")).to_be_visible()
        expect(node_rows(page).first).to_have_text(f"{NODE}▶Running")
        assert asked
        assert all(asked)
        page.close()


def test_a_run_that_does_not_exist_is_said(open_page: OpenPage, complaints: Complaints) -> None:
    complaints.allow("status of 404")

    page = open_page("#/runs/018f0000-0000-7000-8000-000000000000")

    expect(page.get_by_role("alert")).to_contain_text("run not found")


# --- comparison -------------------------------------------------------------------------------------------------------


def test_a_run_is_compared_with_the_one_before_it(open_page: OpenPage, submit: Submit) -> None:
    first, second = submit("sum", count=3), submit("sum", count=5, extra=True)

    page = open_page(f"#/compare?a={second['run_id']}")

    expect(page).to_have_url(re.compile(f"a={first['run_id']}&b={second['run_id']}"))
    steps = page.get_by_role("list", name="Tasks").get_by_role("listitem")
    expect(steps).to_have_text([re.compile("numbers"), re.compile("total")])
    params = page.locator("section", has=page.get_by_role("heading", name="Params", exact=True)).get_by_role("row")
    expect(params).to_have_text([re.compile("Place"), "count35", "extraabsenttrue"])
    page.get_by_role("button", name="Swap").click()
    expect(params).to_have_text([re.compile("Place"), "count53", "extratrueabsent"])


def test_a_comparison_is_readable_on_a_phone(open_page: OpenPage, submit: Submit) -> None:
    first, second = submit("hello"), submit("hello")

    page = open_page(f"#/compare?a={first['run_id']}&b={second['run_id']}", width=320)

    expect(page.get_by_role("row", name="Status Completed Completed")).to_be_visible()
    hidden = "element => element.scrollWidth - element.clientWidth"
    assert page.locator(".table-scroll").first.evaluate(hidden) == 0


def test_runs_of_different_flows_are_compared_and_it_is_said(open_page: OpenPage, submit: Submit) -> None:
    one, other = submit("sum"), submit("hello")

    page = open_page(f"#/compare?a={one['run_id']}&b={other['run_id']}")

    expect(page.get_by_text("The runs are of different flows: sum and hello.")).to_be_visible()


# --- everywhere -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "theme", "width"), [("en", "light", 1280), ("ja", "dark", 320)])
def test_every_part_is_accessible_and_fits(
    open_page: OpenPage,
    submit: Submit,
    language: Literal["en", "ja"],
    theme: Literal["light", "dark"],
    width: int,
) -> None:
    run, failed = submit("fan", count=3), submit("fails")
    places = [f"#/runs/{run['run_id']}/{tab}" for tab in TABS]
    places += [f"#/runs/{run['run_id']}/graph?node=total", f"#/runs/{failed['run_id']}/timeline"]
    places += [f"#/compare?a={run['run_id']}&b={failed['run_id']}"]
    for place in places:
        page = open_page(place, language=language, theme=theme, width=width)
        page.get_by_role("heading", level=1).wait_for()
        page.wait_for_load_state("networkidle")

        assert (place, axe_violations(page)) == (place, [])
        assert (place, overflow(page)) == (place, 0)
        page.close()


def test_a_hidden_tab_gives_its_connection_back_and_goes_on_when_it_is_shown(
    open_page: OpenPage, caller: Caller
) -> None:
    caller.put("hidden", PAIR)
    execution = caller.create("hidden", "start")
    page = open_page(f"#/runs/{execution}/timeline")
    expect(page.get_by_role("heading", level=1)).to_be_visible()

    with page.expect_event("requestfailed", lambda request: "/watch?" in request.url):
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    caller.done(execution, "cancel")
    with page.expect_request("**/watch?*"):
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")

    expect(page.locator(".status-cancelled").first).to_be_visible()
    expect(page.get_by_text("Connected again")).to_have_count(0)
