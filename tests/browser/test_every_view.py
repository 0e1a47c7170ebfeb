"""What holds for every view: both languages and themes, small windows, hostile texts, calls to copy, and an outage."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Dialog, Page, expect

from support.broker import Broker
from support.browsers import Complaints, OpenPage, axe_violations
from support.programs import address_of, up

# Where the API takes printable text only, and where it takes any.
PRINTABLE = "<script>alert(1)</script> {{7*7}} ' OR 1=1 --" + "W" * 60
HOSTILE = f"{PRINTABLE}\u202egnp.exe\u0007"
GRAPH = {
    "title": PRINTABLE,
    "nodes": [
        {"id": "first", "title": PRINTABLE},
        {
            "id": "ask",
            "type": "wait",
            "title": PRINTABLE,
            "prompt": {"question": HOSTILE, "choices": [PRINTABLE[:60], "no"]},
        },
    ],
    "edges": [["first", "ask"]],
}
# The first button of the view that shows it as calls to copy.
CODE = {"en": "Code", "ja": "コード"}


def _ended(client: httpx.Client, run_id: str) -> None:
    deadline = time.monotonic() + 60
    while client.get(f"/runs/{run_id}").json()["status"] not in ("COMPLETED", "FAILED"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="session")
def places(deployment: str) -> Iterator[Mapping[str, str]]:
    """Every view with something hostile in it, by name."""
    with httpx.Client(base_url=deployment, timeout=60.0) as client:

        def post(path: str, body: Any = None) -> Any:
            answer = client.post(path, json=body, headers={"Idempotency-Key": f"every-view-{path}-{time.time_ns()}"})
            assert answer.status_code < 300, answer.text
            return answer.json()

        printed = {"flow_name": "prints", "params": {"texts": [HOSTILE, "\x1b[31mred\x1b[0m"], "name": HOSTILE}}
        shown = post("/runs", {**printed, "tags": [PRINTABLE]})["run_id"]
        failed = post("/runs", {"flow_name": "fails", "params": {HOSTILE: HOSTILE}, "tags": [PRINTABLE]})["run_id"]
        client.put("/graphs/every-view", json=GRAPH).raise_for_status()
        waiting = post("/executions", {"graphId": "every-view", "input": {HOSTILE: HOSTILE}})["executionId"]
        post(f"/executions/{waiting}/start")
        claimed = post("/executions:claim", {"graphIds": ["every-view"], "workerId": "w"})
        post(f"/executions/{waiting}/nodes/{claimed['nodeId']}/success", {"output": HOSTILE})
        strategy = {"title": PRINTABLE, "instrument": "EURUSD", "tags": ["fx"], "enabled": True}
        client.put("/pdca/strategies/every.view", json=strategy).raise_for_status()
        # No strategy has this tag, so the request has ended at once.
        nothing = {"filter": {"tags_any": ["none"]}, "window": {"lookback_days": 1}, "reason": PRINTABLE[:60]}
        request_id = post("/pdca/recheck_all", nothing)["request_id"]
        for run_id in (shown, failed):
            _ended(client, run_id)
        yield {
            "overview": "#/",
            "runs": "#/runs",
            "runs, filtered": "#/runs?status=FAILED",
            "runs, none": "#/runs?flow=nothing-of-this-name",
            "run": f"#/runs/{waiting}",
            "run, failed": f"#/runs/{failed}",
            "timeline": f"#/runs/{shown}/timeline",
            "log": f"#/runs/{shown}/log",
            "events": f"#/runs/{waiting}/events",
            "data": f"#/runs/{failed}/data",
            "compare": f"#/compare?a={shown}&b={failed}",
            "flows": "#/flows",
            "flow": "#/flows/sum",
            "workers": "#/workers",
            "approvals": "#/approvals",
            "wheels": "#/wheels",
            "dead letters": "#/dead-letters",
            "strategies": "#/strategies",
            "strategy": "#/strategies/strategy/every.view",
            "rechecks": "#/strategies/rechecks",
            "recheck": f"#/strategies/recheck/{request_id}",
            "audit": "#/audit",
        }


NAMES = (
    "overview",
    "runs",
    "runs, filtered",
    "runs, none",
    "run",
    "run, failed",
    "timeline",
    "log",
    "events",
    "data",
    "compare",
    "flows",
    "flow",
    "workers",
    "approvals",
    "wheels",
    "dead letters",
    "strategies",
    "strategy",
    "rechecks",
    "recheck",
    "audit",
)


def _settled(page: Page) -> None:
    """The view has its heading, and nothing of it is loading."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)


def _note(dialogs: list[str], dialog: Dialog) -> None:
    dialogs.append(dialog.message)
    dialog.dismiss()


def _overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_is_accessible_fits_and_renders_hostile_texts_harmlessly(
    name: str, open_page: OpenPage, places: Mapping[str, str]
) -> None:
    dialogs: list[str] = []
    wide = open_page(places[name], width=1280)
    narrow = open_page(places[name], language="ja", theme="dark", width=320)
    for page in (wide, narrow):
        page.on("dialog", partial(_note, dialogs))
        _settled(page)

    assert axe_violations(wide) == []
    assert axe_violations(narrow) == []
    assert (_overflow(wide), _overflow(narrow)) == (0, 0)
    assert "\u202e" not in wide.locator("main").inner_text()
    assert wide.locator("main script").count() == 0
    assert dialogs == []


@pytest.mark.parametrize("name", NAMES)
def test_a_view_can_be_copied_as_calls(name: str, open_page: OpenPage, places: Mapping[str, str]) -> None:
    page = open_page(places[name])
    _settled(page)

    page.locator("main").get_by_role("button", name=CODE["en"]).first.click()

    calls = page.get_by_role("dialog").locator("pre")
    expect(calls.nth(1)).to_be_visible()
    texts = calls.all_inner_texts()
    assert texts[0].startswith("curl ")
    assert texts[1].startswith("pyoco-client ")
    assert "with PyocoHttpClient(" in texts[2]
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_keyboard_reaches_the_content_and_leaves_it_again(page: Page) -> None:
    _settled(page)

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize(("place", "shown"), [("#/", "Overview"), ("#/runs", "Runs"), ("#/workers", "Workers")])
def test_an_outage_of_the_broker_is_said_and_ends_by_itself(
    place: str, shown: str, open_page: OpenPage, complaints: Complaints, tmp_path: Path
) -> None:
    complaints.allow("status of 503", "ERR_CONNECTION_REFUSED", "Failed to load resource")
    with Broker(tmp_path) as broker, up(tmp_path, "--port", "0", "--nats-url", broker.url) as gateway:
        page = open_page(place, address=address_of(gateway))
        expect(page.get_by_role("heading", level=1)).to_have_text(shown)
        _settled(page)
        assert page.locator("main .notice-warning").count() == 0

        broker.kill()
        expect(page.locator("main .notice-warning").first).to_be_visible()
        broker.start()

        expect(page.locator("main .notice-warning")).to_have_count(0)
        page.close()
