"""Workers, approvals, wheels, dead letters, strategies and the audit trail, with hostile names and many rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Route, expect

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.pdca.ids import run_id_of
from pyoco_server.stores import DeadLetter
from pyoco_server.worker import PyocoNatsWorker
from support.broker import Broker
from support.executions import Caller
from support.gateways import FINISHED, gateway_settings
from support.pages import Visit, visiting
from support.rechecks import BODY, ONE, key
from support.served import served
from support.tour import resolve
from support.wheels import NAME, wheel
from support.workers import at_work

TAG = "<img src=x onerror=alert(1)>"
REVERSED, COLOURED = "\u202eevil", "\x1b[31mred"
LONG = "x" * 9000
PLACES = (
    "workers?which=all",
    "workers?worker=w-1",
    "approvals",
    "wheels",
    "wheels?show=history",
    "dead-letters",
    "strategies",
    f"strategies/strategy/{ONE}",
    "strategies/rechecks",
    "audit",
)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsBackendConfig]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with Broker(folder) as broker:
        yield gateway_settings(broker.url, folder, worker_heartbeat_interval_sec=0.2)


@pytest.fixture(scope="module")
def address(config: NatsBackendConfig) -> Iterator[str]:
    with served(config) as found:
        yield found


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60.0) as opened:
        yield opened


@pytest.fixture(scope="module")
def request_id(client: httpx.Client, portal: BlockingPortal, config: NatsBackendConfig) -> str:
    """A recheck that has succeeded, of a strategy with a hostile title."""
    strategy = {"title": f"Mean reversion {TAG}", "instrument": "USDJPY", "tags": ["daily"]}
    client.put(f"/pdca/strategies/{ONE}", json=strategy).raise_for_status()
    accepted: str = client.post("/pdca/recheck", json=dict(BODY), headers=key()).json()["request_id"]

    async def work() -> None:
        async with (
            asyncio.timeout(60),
            httpx.AsyncClient(base_url=client.base_url) as asking,
            await PyocoNatsWorker.connect(config, resolve, "w-0", ["default"]) as worker,
        ):
            while (await asking.get(f"/runs/{run_id_of(accepted)}")).json()["status"] not in FINISHED:
                await worker.run_once(timeout=0.2)

    portal.call(work)
    return accepted


@pytest.fixture(scope="module", autouse=True)
def hostile(request_id: str, client: httpx.Client, portal: BlockingPortal, config: NatsBackendConfig) -> Iterator[None]:
    """Names, prompts and errors that try to break the page, in every list; and a worker."""
    caller = Caller(client)
    for prompt in ({"text": TAG, "choices": [REVERSED, TAG]}, {"title": LONG}, COLOURED):
        execution_id = caller.create("open", "start")
        node = f"/executions/{execution_id}/nodes/approve"
        caller.post(f"{node}/start", {"attempt": 1, "workerId": "w"})
        caller.post(f"{node}/wait", {"waitKey": "k", "prompt": prompt})
    for name in (TAG, REVERSED, COLOURED):
        client.post("/runs", json={"flow_name": name}).raise_for_status()
    files = {"wheel": (NAME, wheel(), "application/octet-stream")}
    client.post("/wheels", files=files).raise_for_status()

    async def publish() -> None:
        async with open_stores(config, name="test") as stores:
            for text in (TAG, REVERSED, COLOURED, LONG):
                letter = DeadLetter(
                    timestamp=1.0, reason="execution_error", error=text, flow_name=text, worker_id=text[:40]
                )
                await stores.dead_letters.publish(letter)

    portal.call(publish)
    with (
        portal.wrap_async_context_manager(open_stores(config, name="test")) as stores,
        portal.wrap_async_context_manager(at_work(stores, config, name="w-1", tags=("gpu",), patience_sec=300.0)),
    ):
        yield


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as opened:
        yield opened


def await_data(visit: Visit) -> None:
    expect(visit.page.locator(".loading")).to_have_count(0)
    expect(visit.page.locator("main h1")).to_be_visible()


@pytest.mark.parametrize(
    ("is_japanese", "scheme", "width"),
    [(False, "dark", 1280), (True, "light", 320)],
    ids=["en-dark-wide", "ja-light-320"],
)
def test_every_page_is_accessible_and_fits_whatever_is_in_it(
    browser: Browser, address: str, is_japanese: bool, scheme: str, width: int
) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 720}}
    with visiting(browser, address, is_japanese=is_japanese, **options) as visit:
        for place in PLACES:
            visit.go(place)
            await_data(visit)

            assert visit.accessibility() == [], place
            assert visit.overflow() == 0, place


def test_names_are_shown_as_text_and_cannot_turn_it_around(visit: Visit) -> None:
    visit.go("dead-letters")
    table = visit.page.get_by_role("table")

    expect(table.get_by_text(TAG).first).to_be_visible()
    expect(table.get_by_text("‹U+202E›evil").first).to_be_visible()
    expect(table.get_by_text("␛[31mred").first).to_be_visible()
    assert visit.page.locator("main img").count() == 0


def test_a_list_has_the_beginning_of_an_error_and_the_rest_on_request(visit: Visit) -> None:
    visit.go("dead-letters")
    expect(visit.page.get_by_role("row").filter(has_text="xxxx")).to_have_count(1)
    assert LONG not in visit.page.content()

    visit.page.get_by_role("button", name="Show the whole error").click()
    visit.page.get_by_role("button", name="Show more").click()

    expect(visit.page.get_by_text(LONG)).to_be_visible()


def test_filters_are_part_of_the_address(visit: Visit) -> None:
    visit.go("dead-letters")
    rows = visit.page.get_by_role("row")
    expect(rows).to_have_count(5)

    visit.page.get_by_role("searchbox", name="Flow").fill(TAG)

    expect(rows).to_have_count(2)
    visit.page.reload()
    expect(rows).to_have_count(2)
    expect(visit.page.get_by_role("searchbox", name="Flow")).to_have_value(TAG)


def test_a_strategy_shows_its_results_and_their_files(visit: Visit, request_id: str) -> None:
    visit.go("strategies")
    visit.page.get_by_role("link", name="Mean reversion").click()

    expect(visit.page.get_by_role("heading", level=1)).to_contain_text(TAG)
    expect(visit.page.get_by_role("img", name="Win rate: 1 values")).to_be_visible()
    with visit.page.expect_download() as download:
        visit.page.get_by_role("button", name="report.json").click()
    assert download.value.path().read_text("utf-8") == '{"health": "healthy"}'
    visit.page.get_by_role("link", name=request_id[-8:]).click()
    expect(visit.page.get_by_role("main")).to_contain_text("1 of 1")


def test_requests_are_listed_and_one_that_runs_is_followed(visit: Visit, client: httpx.Client) -> None:
    accepted = client.post("/pdca/recheck", json=dict(BODY), headers=key()).json()["request_id"]
    visit.go("strategies/rechecks")
    visit.page.get_by_role("link", name=accepted).click()
    expect(visit.page.get_by_role("main")).to_contain_text("0 of 1")
    expect(visit.page.locator("h1 + .status")).to_contain_text("Running")

    client.post(f"/runs/{run_id_of(accepted)}/cancel").raise_for_status()

    expect(visit.page.locator("h1 + .status")).to_contain_text("Failed")


def test_records_lead_to_what_was_changed_and_to_all_of_a_request(visit: Visit, client: httpx.Client) -> None:
    run_id = client.post("/runs", json={"flow_name": "audited"}).json()["run_id"]
    visit.go(f"audit?resource={run_id}")
    row = visit.page.get_by_role("row").filter(has_text="run.create")
    expect(row.get_by_role("link", name=run_id)).to_have_attribute("href", f"#/runs/{run_id}")

    row.get_by_role("button").last.click()

    expect(visit.page.get_by_label("X-Request-Id")).not_to_have_value("")
    expect(row).to_have_count(1)


def test_of_many_workers_only_some_are_in_the_document(visit: Visit, client: httpx.Client) -> None:
    (known,) = [each for each in client.get("/workers").json() if each["worker_id"] == "w-1"]
    many: list[dict[str, Any]] = [known | {"worker_id": f"w-{number:03}"} for number in range(450)]

    def answer(route: Route) -> None:
        route.fulfill(json=many, headers={"X-Total-Count": "1200"})

    visit.page.route("**/workers?*", answer)
    visit.go("workers")

    expect(visit.page.get_by_text("450 of 1,200 workers are shown.")).to_be_visible()
    expect(visit.page.get_by_role("row")).to_have_count(201)
    visit.page.get_by_role("button", name="Show more (250 left)").click()
    expect(visit.page.get_by_role("row")).to_have_count(401)
    visit.page.get_by_label("Find").fill("w-449")
    expect(visit.page.get_by_role("row")).to_have_count(2)


def test_a_hidden_page_asks_for_nothing(visit: Visit) -> None:
    clock = visit.page.clock
    clock.install()
    visit.go("workers")
    await_data(visit)
    visit.page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    clock.run_for(60_000)
    asked = len(visit.sent("GET", "/workers"))

    clock.run_for(600_000)

    assert len(visit.sent("GET", "/workers")) == asked
    with visit.page.expect_request("**/workers?*"):
        visit.page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
