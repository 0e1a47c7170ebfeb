"""Access control on the page: an API key or token is asked for, kept for the tab only, and discarded when refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Page, Route, expect

from pyoco_server.bootstrap import open_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.auth.scopes import Scope
from support.broker import Broker
from support.callers import AUDIENCE, ISSUER, KEY, RSA_KEY, claims_at, hand_out, pem_of, token_of
from support.gateways import gateway_settings
from support.pages import Visit, visiting
from support.served import served

GUI_AUDIENCE = "pdca.gui"


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsBackendConfig]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    (folder / "key.pem").write_bytes(pem_of(RSA_KEY))
    with Broker(folder) as broker:
        yield gateway_settings(
            broker.url,
            folder,
            http_auth_mode="api_key,jwt",
            http_api_key_header="X-Team-Key",
            jwt_issuer=ISSUER,
            jwt_audience=f"{AUDIENCE},{GUI_AUDIENCE}",
            jwt_pem_file=str(folder / "key.pem"),
        )


@pytest.fixture(scope="module")
def address(config: NatsBackendConfig) -> Iterator[str]:
    with served(config) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as opened:
        yield opened


@pytest.fixture
def key(portal: BlockingPortal, config: NatsBackendConfig) -> Any:
    """Creates a key with these scopes."""

    def create(*scopes: Scope) -> str:
        return portal.call(hand_out, config, "team-a", *scopes)

    return create


def sign_in(page: Page, secret: str, kind: str = "API key") -> None:
    page.get_by_label("With").select_option(label=kind)
    page.get_by_label(kind, exact=True).fill(secret)
    page.get_by_role("button", name="Sign in").click()


def kept(page: Page) -> list[str]:
    """All that the browser has stored for this page, in the tab and for longer, with the address."""
    found: list[str] = page.evaluate(
        "[...Object.values(sessionStorage), '|', ...Object.values(localStorage), document.cookie, location.href]"
    )
    return found


def test_a_wrong_key_is_refused_and_not_kept(visit: Visit) -> None:
    visit.go("workers")
    sign_in(visit.page, KEY)

    expect(visit.page.get_by_role("alert")).to_contain_text("API key")
    expect(visit.page.get_by_role("button", name="Sign in")).to_be_visible()
    assert KEY not in "".join(kept(visit.page))


def test_a_right_key_is_kept_for_the_tab_and_sent_in_its_header_only(visit: Visit, key: Any) -> None:
    secret = key(Scope.WORKERS_READ)
    visit.go("workers")
    sign_in(visit.page, secret)
    expect(visit.page.get_by_role("heading", name="Workers")).to_be_visible()
    visit.page.get_by_role("button", name="Code").click()
    expect(visit.page.get_by_role("dialog")).to_contain_text("X-Team-Key: $PYOCO_API_KEY")
    shown = visit.page.content()
    tab, others = "\n".join(kept(visit.page)).split("|")

    assert secret in tab
    assert secret not in others
    assert secret not in shown
    assert [each.url for each in visit.requests if secret in each.url] == []
    asked = [each for each in visit.requests if each.url.split("?")[0].endswith(("/whoami", "/workers"))]
    assert {each.headers.get("x-team-key") for each in asked} == {secret}


def test_the_account_shows_name_tenant_and_scopes_and_signs_out(visit: Visit, key: Any) -> None:
    secret = key(Scope.WORKERS_READ, Scope.DLQ_READ)
    visit.go("workers")
    sign_in(visit.page, secret)
    visit.page.get_by_role("button", name=f"Signed in as {secret.split('_')[1]}").click()
    dialog = visit.page.get_by_role("dialog")

    expect(dialog).to_contain_text("team-a")
    expect(dialog.get_by_role("listitem")).to_have_text(["workers:read", "dlq:read"])
    assert visit.accessibility() == []

    visit.page.keyboard.press("Escape")
    visit.page.get_by_role("button", name="Sign out").click()

    expect(visit.page.get_by_label("With")).to_be_visible()
    assert secret not in "".join(kept(visit.page))


def test_a_key_that_is_revoked_while_it_is_used_is_discarded_and_asked_for_again(
    visit: Visit, key: Any, portal: BlockingPortal, config: NatsBackendConfig
) -> None:
    async def revoke(key_id: KeyId) -> None:
        async with open_api_keys(config) as keys:
            await keys.revoke(key_id)

    secret = key(Scope.WORKERS_READ)
    visit.go("workers")
    sign_in(visit.page, secret)
    expect(visit.page.get_by_role("heading", name="Workers")).to_be_visible()

    portal.call(revoke, KeyId(secret.split("_")[1]))

    expect(visit.page.get_by_role("alert")).to_contain_text("revoked")
    expect(visit.page.get_by_role("button", name="Sign in")).to_be_visible()
    assert secret not in "".join(kept(visit.page))


def test_a_view_whose_scope_is_missing_names_it_and_asks_for_nothing(visit: Visit, key: Any) -> None:
    visit.go("workers")
    sign_in(visit.page, key(Scope.DLQ_READ))
    for place, scope in (("workers", "workers:read"), ("wheels", "wheels:read"), ("audit", "admin")):
        visit.go(place)

        expect(visit.page.get_by_role("main")).to_contain_text(f"This page needs the scope {scope}.")
        assert visit.sent("GET", f"/{place}") == []
    visit.go("dead-letters")
    expect(visit.page.get_by_role("main")).to_contain_text("There are no dead letters.")


def test_a_scope_that_the_gateway_misses_is_said_and_the_key_is_kept(visit: Visit, key: Any) -> None:
    secret = key(Scope.DLQ_READ)

    def with_more_scopes(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"scopes": ["dlq:read", "workers:read"]})

    # The page believes that it may ask; the gateway decides.
    visit.page.route("**/whoami", with_more_scopes)
    visit.go("workers")
    sign_in(visit.page, secret)

    expect(visit.page.get_by_role("alert")).to_contain_text("does not have the scope for this")
    expect(visit.page.get_by_role("alert")).to_contain_text("workers:read")
    assert secret in "".join(kept(visit.page))
    assert visit.accessibility() == []
    visit.go("dead-letters")
    expect(visit.page.get_by_role("main")).to_contain_text("There are no dead letters.")


def test_a_reloaded_tab_is_still_signed_in(visit: Visit, key: Any) -> None:
    secret = key(Scope.WORKERS_READ)
    visit.go("workers")
    sign_in(visit.page, secret)
    expect(visit.page.get_by_role("heading", name="Workers")).to_be_visible()

    visit.page.reload()

    expect(visit.page.get_by_role("heading", name="Workers")).to_be_visible()
    expect(visit.page.get_by_role("button", name=f"Signed in as {secret.split('_')[1]}")).to_be_visible()


def test_a_token_is_sent_as_bearer_and_one_for_another_audience_is_explained_and_kept(visit: Visit) -> None:
    token = token_of(claims_at(time.time(), scope="workers:read pdca:read"))
    visit.go("workers")
    sign_in(visit.page, token, "Bearer token")
    expect(visit.page.get_by_text("No worker is running.")).to_be_visible()
    visit.go("strategies")

    expect(visit.page.get_by_role("main")).to_contain_text("needs a token for the audience pdca.gui")
    expect(visit.page.get_by_role("main")).to_contain_text(f"Yours is for: {AUDIENCE}")
    assert {each.headers.get("authorization") for each in visit.sent("GET", "/workers")} == {f"Bearer {token}"}
    visit.go("workers")
    expect(visit.page.get_by_role("table")).to_have_count(0)
    expect(visit.page.get_by_text("No worker is running.")).to_be_visible()


def test_a_token_that_has_expired_is_refused_with_the_reason(visit: Visit) -> None:
    visit.go("workers")
    sign_in(visit.page, token_of(claims_at(time.time(), exp=time.time() - 600)), "Bearer token")

    expect(visit.page.get_by_role("alert")).to_contain_text("expired")


def test_signing_in_needs_the_keyboard_only_and_is_accessible(visit: Visit, key: Any) -> None:
    visit.go("workers")
    expect(visit.page.get_by_role("button", name="Sign in")).to_be_visible()
    assert visit.accessibility() == []
    visit.page.get_by_label("API key", exact=True).focus()

    visit.page.keyboard.type(key(Scope.WORKERS_READ))
    visit.page.keyboard.press("Enter")

    expect(visit.page.get_by_role("heading", name="Workers")).to_be_visible()


def test_while_the_broker_is_away_the_page_says_so_and_recovers(browser: Browser, tmp_path: Path) -> None:
    with (
        Broker(tmp_path) as broker,
        served(gateway_settings(broker.url, tmp_path)) as address,
        visiting(browser, address) as visit,
    ):
        visit.go("workers")
        expect(visit.page.get_by_text("No worker is running.")).to_be_visible()
        broker.kill()
        expect(visit.page.get_by_text("ERR-PYOCO-0003")).to_be_visible()
        broker.start()
        expect(visit.page.get_by_text("ERR-PYOCO-0003")).to_have_count(0)
