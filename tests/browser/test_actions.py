"""Actions on the page: absent by default, else confirmed, done once, and within the scopes of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Locator, Page, Route, expect

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.stores import DeadLetter
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.executions import Caller
from support.gateways import gateway_settings
from support.pages import Visit, visiting
from support.served import served
from support.workers import at_work

BUTTONS = ("Cancel run", "Answer", "Replay", "Hide")
PROMPT = {"text": "Ship it?", "choices": ["ship", "stop"]}


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def make_config(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Any:
    def make(**changed: Any) -> NatsBackendConfig:
        folder: Path = tmp_path_factory.mktemp("gateway")
        return gateway_settings(broker.url, folder, worker_heartbeat_interval_sec=0.2, **changed)

    return make


@pytest.fixture(scope="module")
def config(make_config: Any) -> NatsBackendConfig:
    settings: NatsBackendConfig = make_config(dashboard_actions=True)
    return settings


@pytest.fixture(scope="module")
def address(config: NatsBackendConfig) -> Iterator[str]:
    with served(config) as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60.0) as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as opened:
        yield opened


@contextmanager
def worker(portal: BlockingPortal, config: NatsBackendConfig, name: str) -> Iterator[None]:
    """A worker of this name that takes runs of a tag of its own."""
    with (
        portal.wrap_async_context_manager(open_stores(config, name="test")) as stores,
        portal.wrap_async_context_manager(at_work(stores, config, name=name, tags=(name,), patience_sec=90.0)),
    ):
        yield


def submit(client: httpx.Client, **body: Any) -> str:
    response = client.post("/runs", json={"flow_name": "hello", **body})
    assert response.status_code == 200, response.text
    run_id: str = response.json()["run_id"]
    return run_id


def let_wait(client: httpx.Client, prompt: Any = PROMPT) -> str:
    """An execution whose node waits for an answer."""
    caller = Caller(client)
    execution_id = caller.create("open", "start")
    node = f"/executions/{execution_id}/nodes/approve"
    for command, body in (("start", {"attempt": 1, "workerId": "w"}), ("wait", {"waitKey": "k", "prompt": prompt})):
        caller.post(f"{node}/{command}", body)
    return execution_id


def let_die(portal: BlockingPortal, config: NatsBackendConfig, run_id: str) -> None:
    """Leaves a dead letter of this run."""

    async def publish() -> None:
        async with open_stores(config, name="test") as stores:
            letter = DeadLetter(timestamp=1.0, reason="max_deliver", run_id=run_id, flow_name="hello", tag="default")
            await stores.dead_letters.publish(letter)

    portal.call(publish)


def status_of(client: httpx.Client, run_id: str) -> str:
    status: str = client.get(f"/runs/{run_id}").json()["status"]
    return status


def letter_of(page: Page, run_id: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=run_id[-8:]))


def replays(client: httpx.Client, run_id: str) -> int:
    """How many runs there are of this dead letter."""
    runs = client.get("/audit", params={"action": "run.create", "limit": 500}).json()["items"]
    return sum(1 for each in runs if each["detail"].get("replay_of") == run_id)


def test_by_default_nothing_on_the_page_changes_anything(
    browser: Browser, make_config: Any, portal: BlockingPortal
) -> None:
    config = make_config()
    with (
        served(config) as address,
        httpx.Client(base_url=address, timeout=60.0) as client,
        worker(portal, config, "read-only"),
        visiting(browser, address) as visit,
    ):
        run_id = submit(client)
        let_wait(client)
        let_die(portal, config, run_id)
        shown = {
            f"runs/{run_id}": run_id,
            "approvals": "Ship it?",
            "dead-letters": run_id[:13],
            "workers": "read-only",
        }
        for place, text in shown.items():
            visit.go(place)

            expect(visit.page.get_by_text(text).first).to_be_visible()
            for name in BUTTONS:
                assert visit.page.get_by_role("button", name=name).count() == 0, (place, name)


def test_a_cancel_is_confirmed_with_a_reason_and_sent_once_by_a_double_click(
    visit: Visit, client: httpx.Client
) -> None:
    run_id = submit(client)
    visit.go(f"runs/{run_id}")
    visit.page.get_by_role("button", name="Cancel run").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog).to_contain_text(run_id)
    assert status_of(client, run_id) == "PENDING"
    dialog.get_by_label("Reason").fill("wrong input")
    assert visit.accessibility() == []

    dialog.get_by_role("button", name="Cancel the run").dblclick()

    expect(dialog).to_contain_text("The run is")
    sent = visit.sent("POST", f"/runs/{run_id}/cancel")
    assert len(sent) == 1
    assert len(sent[0].headers["idempotency-key"]) == 32
    run = client.get(f"/runs/{run_id}").json()
    assert (run["status"], run["cancel"]["reason"]) == ("CANCELLED", "wrong input")
    dialog.get_by_role("button", name="Close").last.click()
    expect(visit.page.get_by_role("button", name="Cancel run")).to_have_count(0)


def test_a_run_that_is_being_cancelled_offers_no_second_cancel(visit: Visit, client: httpx.Client) -> None:
    execution_id = Caller(client).create("open", "start")
    Caller(client).post(f"/executions/{execution_id}/nodes/approve/start", {"attempt": 1, "workerId": "w"})
    visit.go(f"runs/{execution_id}")
    expect(visit.page.get_by_role("button", name="Cancel run")).to_be_visible()

    client.post(f"/runs/{execution_id}/cancel").raise_for_status()

    expect(visit.page.locator(".run-title .status")).to_have_text("◪Cancelling")
    expect(visit.page.get_by_role("button", name="Cancel run")).to_have_count(0)
    # The worker reports it together with the end.
    expect(visit.page.get_by_text("Delivered to the worker")).to_have_count(0)


def test_a_dialog_that_is_closed_does_nothing(visit: Visit, client: httpx.Client) -> None:
    run_id = submit(client)
    visit.go(f"runs/{run_id}")
    visit.page.get_by_role("button", name="Cancel run").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()

    visit.page.keyboard.press("Escape")

    expect(visit.page.get_by_role("dialog")).to_have_count(0)
    expect(visit.page.get_by_role("button", name="Cancel run")).to_be_focused()
    assert visit.sent("POST", "/cancel") == []


def test_a_dialog_is_closed_where_its_object_is_no_longer_shown(visit: Visit, client: httpx.Client) -> None:
    visit.go(f"runs/{submit(client)}")
    visit.page.get_by_role("button", name="Cancel run").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()

    visit.page.evaluate("location.hash = '#/workers'")

    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Workers")
    expect(visit.page.get_by_role("dialog")).to_have_count(0)


def test_a_waiting_node_is_answered_with_the_keyboard_only(visit: Visit, client: httpx.Client) -> None:
    execution_id = let_wait(client)
    visit.go("approvals")
    card = visit.page.get_by_role("listitem").filter(has_text=execution_id)
    card.get_by_role("button", name="Answer").focus()
    press = visit.page.keyboard.press

    press("Enter")
    expect(visit.page.get_by_role("radio", name="ship")).to_be_focused()
    press("Enter")
    expect(visit.page.get_by_role("alert")).to_contain_text("Choose an answer first.")
    assert visit.sent("POST", "/resume") == []
    press("ArrowDown")
    expect(visit.page.get_by_role("radio", name="stop")).to_be_checked()
    press("Tab")
    visit.page.keyboard.type("not on a friday")
    press("Tab")
    press("Tab")
    press("Enter")

    expect(visit.page.get_by_role("dialog")).to_contain_text("Answered")
    expect(visit.page.get_by_role("dialog").get_by_role("button", name="Close").last).to_be_focused()
    press("Enter")
    expect(card).to_have_count(0)
    events = client.get(f"/executions/{execution_id}/events").json()["items"]
    (resumed,) = [each for each in events if each["type"] == "NODE_RESUMED"]
    assert resumed["payload"]["answer"] == {"choice": "stop", "comment": "not on a friday"}


def test_an_answer_without_choices_is_json_or_text_and_a_mistake_is_not_sent(
    visit: Visit, client: httpx.Client
) -> None:
    execution_id = let_wait(client, {"title": "Which version?"})
    visit.go("approvals")
    visit.page.get_by_role("listitem").filter(has_text=execution_id).get_by_role("button", name="Answer").click()
    dialog = visit.page.get_by_role("dialog")
    dialog.get_by_label("Answer (text or JSON").fill('{"version": ')
    dialog.get_by_role("button", name="Send the answer").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not valid JSON")
    assert visit.sent("POST", "/resume") == []

    dialog.get_by_label("Answer (text or JSON").fill('{"version": 2}')
    dialog.get_by_role("button", name="Send the answer").click()

    expect(dialog).to_contain_text("Answered")


def test_a_replay_whose_answer_is_lost_is_tried_again_with_the_same_key_and_done_once(
    visit: Visit, client: httpx.Client, portal: BlockingPortal, config: NatsBackendConfig
) -> None:
    def lose_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    run_id = submit(client)
    let_die(portal, config, run_id)
    visit.go("dead-letters")
    visit.page.route("**/replay", lose_answer, times=1)
    letter_of(visit.page, run_id).get_by_role("button", name="Replay").click()
    dialog = visit.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Replay").click()
    expect(dialog).to_contain_text("It may have been done or not")

    dialog.get_by_role("button", name="Try again").click()

    expect(dialog).to_contain_text("Submitted as")
    keys = [each.headers["idempotency-key"] for each in visit.sent("POST", "/replay")]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert replays(client, run_id) == 1


def test_a_refused_action_shows_why_and_what_to_do(
    visit: Visit, client: httpx.Client, portal: BlockingPortal, config: NatsBackendConfig
) -> None:
    gone = "0190b8a0-7c00-7000-8000-0000deadbeef"
    let_die(portal, config, gone)
    visit.go("dead-letters")
    letter_of(visit.page, gone).get_by_role("button", name="Replay").click()
    dialog = visit.page.get_by_role("dialog")

    dialog.get_by_role("button", name="Replay").click()

    expect(dialog.get_by_role("alert")).to_contain_text("ERR-PYOCO-0041")
    expect(dialog.get_by_role("alert")).to_contain_text("submit it anew")


def test_a_worker_is_hidden_and_shown_again(
    visit: Visit, client: httpx.Client, portal: BlockingPortal, config: NatsBackendConfig
) -> None:
    def row() -> Locator:
        return visit.page.get_by_role("row").filter(has_text="shy")

    with worker(portal, config, "shy"):
        visit.go("workers")
        row().get_by_role("button", name="Hide").click()
        visit.page.get_by_role("dialog").get_by_role("button", name="Hide").click()
        expect(visit.page.get_by_role("dialog")).to_contain_text("The worker is hidden.")
        visit.page.keyboard.press("Escape")
        expect(row()).to_have_count(0)

        visit.page.get_by_label("Show hidden").check()
        row().get_by_role("button", name="Show again").click()
        visit.page.get_by_role("dialog").get_by_role("button", name="Show again").click()
        expect(visit.page.get_by_role("dialog")).to_contain_text("shown again")

        (shown,) = [each for each in client.get("/workers").json() if each["worker_id"] == "shy"]
        assert shown["hidden"] is False


def test_an_action_beyond_the_scopes_is_disabled_and_says_which_one_is_missing(
    browser: Browser, make_config: Any, portal: BlockingPortal
) -> None:
    config = make_config(dashboard_actions=True, http_auth_mode="api_key")
    key = portal.call(hand_out, config, "team-a", Scope.RUNS_READ)
    admin = portal.call(hand_out, config, "team-a", *EVERY_SCOPE)
    with (
        served(config) as address,
        httpx.Client(base_url=address, timeout=60.0, headers=api_key_headers(admin)) as client,
        visiting(browser, address) as visit,
    ):
        run_id = submit(client)
        visit.go(f"runs/{run_id}")
        visit.page.get_by_label("API key").fill(key)
        visit.page.get_by_role("button", name="Sign in").click()
        button = visit.page.get_by_role("button", name="Cancel run")

        expect(button).to_be_disabled()
        button.click(force=True)

        expect(visit.page.get_by_role("dialog")).to_contain_text("This needs the scope runs:cancel")
        assert visit.page.get_by_role("button", name="Cancel the run").count() == 0
        assert status_of(client, run_id) == "PENDING"
