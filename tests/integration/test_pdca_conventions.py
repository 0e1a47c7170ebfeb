"""The conventions of the PDCA API, by their curl examples and by each line of their checklist, on a real gateway."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from support.broker import Broker
from support.callers import RSA_KEY, bearer_headers, claims_at, pem_of, token_of
from support.conformance import differences, document
from support.gateways import gateway_settings
from support.served import served
from support.tour import PATIENCE_SEC, resolve

DRY_RUN = """\
curl -sS -X POST "$API/pdca/recheck" \\
 -H "Authorization: Bearer $JWT" \\
 -H "Content-Type: application/json" \\
 -H "Idempotency-Key: 01J8TPZ7YJ1E1X4C5N9ZP3M3QJ" \\
 -d '{
   "strategies":["strat.meanrev.m1"],
   "window":{"lookback_days":14},
   "reason":"manual",
   "dry_run":true,
   "params":{"recalc_metrics":["sharpe"]}
 }'
"""
BULK = """\
curl -sS -X POST "$API/pdca/recheck_all" \\
 -H "Authorization: Bearer $JWT" \\
 -H "Content-Type: application/json" \\
 -H "Idempotency-Key: 01J8TPZ7YJ1E1X4C5N9ZP3M3QA" \\
 -d '{
   "filter":{"tags_any":["daily"],"health":["unknown"]},
   "batch_size":25,
   "window":{"lookback_days":7},
   "reason":"daily-bulk",
   "dry_run":false
 }'
"""
PROGRESS = """\
curl -sS "$API/pdca/recheck/01JABCXYZ-ULID-5678" \\
 -H "Authorization: Bearer $JWT"
"""
STRATEGIES = """\
curl -sS "$API/gui/strategies?health=healthy&sort=last_checked_at.desc&page=1&page_size=50" \\
 -H "Authorization: Bearer $JWT"
"""
ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
CATALOGUE = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    409: "IDEMPOTENCY_CONFLICT",
    429: "RATE_LIMITED",
    500: "INTERNAL_ERROR",
    502: "AIRFLOW_DOWN",
}
ISSUER = "noctria.auth"
SCOPES = "pdca:read pdca:recheck pdca:recheck_all pdca:admin pdca:download"
KNOWN = "strat.meanrev.m1"
# Besides KNOWN; more than two pages of ten.
OTHERS = [f"strat.trend.m{number}" for number in range(1, 25)]


def token(audience: str, scope: str = SCOPES) -> str:
    return token_of(claims_at(time.time(), iss=ISSUER, aud=audience, sub="batch-client", scope=scope))


@dataclass(frozen=True, slots=True)
class Api:
    """A gateway with access control."""

    address: str

    def request(self, method: str, path: str, *, audience: str = "pdca", key: str | None = None, **more: Any) -> Any:
        headers = bearer_headers(token(audience)) | ({"Idempotency-Key": key} if key else {})
        return httpx.request(method, self.address + path, headers=headers, timeout=30.0, **more)

    def curl(self, command: str, folder: Path, audience: str = "pdca") -> httpx.Response:
        """The answer to this command, literally; its settings make it write down status and headers as well."""
        names = {"API": self.address, "JWT": token(audience)}
        if shutil.which("curl") is None:
            return _with_httpx(Template(command).substitute(names))
        (folder / ".curlrc").write_text(f'dump-header = "{folder / "headers"}"\nmax-time = 30\n')
        environment = {"PATH": os.environ["PATH"], "CURL_HOME": str(folder), "HOME": str(folder), **names}
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, check=True, timeout=60)
        status, *lines = (folder / "headers").read_text("latin-1").splitlines()
        headers = [(name, value) for name, found, value in (line.partition(": ") for line in lines) if found]
        return httpx.Response(int(status.split(" ")[1]), headers=headers, content=done.stdout)


def _with_httpx(command: str) -> httpx.Response:
    words = shlex.split(command)
    url = next(word for word in words if word.startswith("http"))
    headers = [words[n + 1].split(": ", 1) for n, word in enumerate(words) if word == "-H"]
    body = words[words.index("-d") + 1] if "-d" in words else None
    return httpx.request("POST" if body else "GET", url, headers=dict(headers), content=body, timeout=30.0)


@pytest.fixture(scope="module")
def settings(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., NatsBackendConfig]:
    folder = tmp_path_factory.mktemp("gateways")
    (folder / "key.pem").write_bytes(pem_of(RSA_KEY))
    access = {
        "http_auth_mode": "jwt",
        "jwt_issuer": ISSUER,
        "jwt_audience": "pdca,pdca.gui",
        "jwt_pem_file": str(folder / "key.pem"),
    }

    def made(name: str, url: str = shared_broker.url, **changed: Any) -> NatsBackendConfig:
        (folder / name).mkdir()
        return gateway_settings(url, folder / name, **access | changed)

    return made


@pytest.fixture(scope="module")
def api(settings: Callable[..., NatsBackendConfig]) -> Iterator[Api]:
    """With registered strategies."""
    with served(settings("main")) as address:
        api = Api(address)
        for number, strategy in enumerate([KNOWN, *OTHERS]):
            fields = {
                "title": strategy,
                "instrument": "USDJPY",
                "enabled": True,
                "tags": ["daily"] if number % 2 else [],
            }
            api.request("PUT", f"/pdca/strategies/{strategy}", json=fields).raise_for_status()
        yield api


def body(**changed: Any) -> dict[str, Any]:
    return {"strategies": [KNOWN], "window": {"lookback_days": 14}, "reason": "manual"} | changed


# --- §11: the curl examples -------------------------------------------------------------------------------------------


def test_curl_a_dry_run_of_a_recheck_is_estimated(api: Api, tmp_path: Path) -> None:
    response = api.curl(DRY_RUN, tmp_path)

    accepted = response.json()
    assert response.status_code == 202, response.text
    assert (accepted["status"], accepted["estimated"]) == ("accepted", {"strategies": 1, "batches": 1})
    assert ULID.fullmatch(accepted["request_id"])
    assert api.request("GET", f"/pdca/recheck/{accepted['request_id']}").status_code == 404


def test_curl_a_bulk_recheck_is_accepted_and_its_progress_shown(api: Api, tmp_path: Path) -> None:
    response = api.curl(BULK, tmp_path)

    accepted = response.json()
    assert response.status_code == 202, response.text
    assert accepted["estimated"] == {"strategies": 12, "batches": 1}
    shown = api.curl(PROGRESS.replace("01JABCXYZ-ULID-5678", accepted["request_id"]), tmp_path)
    assert shown.status_code == 200, shown.text
    assert shown.json()["request_id"] == accepted["request_id"]
    assert shown.json()["progress"]["total_strategies"] == 12


def test_curl_the_progress_of_an_unknown_request_is_a_404(api: Api, tmp_path: Path) -> None:
    response = api.curl(PROGRESS, tmp_path)

    assert (response.status_code, response.json()["error"]) == (404, "NOT_FOUND")


def test_curl_strategies_are_listed_for_the_gui(api: Api, tmp_path: Path) -> None:
    response = api.curl(STRATEGIES, tmp_path, "pdca.gui")

    page = response.json()
    assert response.status_code == 200, response.text
    assert set(page) == {"items", "page", "page_size", "total"}
    assert (page["page"], page["page_size"]) == (1, 50)


# --- §14: the checklist -----------------------------------------------------------------------------------------------


def test_checklist_openapi_has_the_same_content() -> None:
    content = document().content
    expected = {
        ("post", "/pdca/recheck"): {"202", "400", "401", "403", "404", "409", "429", "500", "502"},
        ("post", "/pdca/recheck_all"): {"202", "400", "401", "403", "409", "429", "500", "502"},
        ("get", "/pdca/recheck/{request_id}"): {"200", "400", "401", "403", "404", "429", "500"},
        ("get", "/gui/strategies"): {"200", "400", "401", "403", "429", "500"},
        ("get", "/gui/strategies/{id}"): {"200", "400", "401", "403", "404", "429", "500"},
        ("get", "/gui/strategies/{id}/results"): {"200", "400", "401", "403", "404", "429", "500"},
        ("get", "/gui/requests/{request_id}"): {"200", "401", "403", "404", "429", "500"},
        ("get", "/gui/artifacts/{id}/url"): {"200", "401", "403", "404", "429", "500"},
    }
    for (method, path), statuses in expected.items():
        operation = content["paths"][path][method]
        assert statuses <= set(operation["responses"]), path
    query = {one["name"]: one["schema"] for one in content["paths"]["/gui/strategies"]["get"]["parameters"]}
    assert {"q", "tags_any", "health", "instrument", "enabled", "sort", "page", "page_size"} <= set(query)
    assert (query["page_size"]["minimum"], query["page_size"]["maximum"], query["page_size"]["default"]) == (
        10,
        100,
        50,
    )
    for path in ("/pdca/recheck", "/pdca/recheck_all"):
        keys = [one for one in content["paths"][path]["post"]["parameters"] if one["name"] == "Idempotency-Key"]
        assert [(one["in"], one["required"]) for one in keys] == [("header", True)]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/pdca/recheck", body()),
        ("/pdca/recheck", body(dry_run=True)),
        ("/pdca/recheck_all", {"window": {"lookback_days": 7}, "reason": "bulk"}),
        ("/pdca/recheck_all", {"window": {"lookback_days": 7}, "reason": "none", "filter": {"tags_any": ["unused"]}}),
    ],
    ids=["recheck", "dry run", "bulk", "nothing matches"],
)
def test_checklist_a_202_always_has_a_request_id(api: Api, path: str, sent: dict[str, Any]) -> None:
    key = f"checklist-202-{sent['reason']}-{'dry_run' in sent}"

    responses = [api.request("POST", path, key=key, json=sent) for _ in range(2)]

    assert [response.status_code for response in responses] == [202, 202], responses[0].text
    ids = {response.json()["request_id"] for response in responses}
    assert len(ids) == 1
    assert ULID.fullmatch(ids.pop())


@pytest.mark.parametrize(
    ("differs", "again"),
    [
        ("spaces", json.dumps(body(), indent=4)),
        ("order of keys", json.dumps(dict(reversed(body().items())))),
        ("trace id", json.dumps(body(trace_id="another"))),
    ],
)
def test_checklist_a_key_with_the_same_digest_is_the_same_request(api: Api, differs: str, again: str) -> None:
    key = f"checklist-same {differs}"
    first = api.request("POST", "/pdca/recheck", key=key, json=body())

    second = api.request("POST", "/pdca/recheck", key=key, content=again)

    assert (first.status_code, second.status_code) == (202, 202), second.text
    assert first.json()["request_id"] == second.json()["request_id"]


def test_checklist_a_key_with_another_digest_is_a_conflict(api: Api) -> None:
    api.request("POST", "/pdca/recheck", key="checklist-conflict", json=body())

    response = api.request("POST", "/pdca/recheck", key="checklist-conflict", json=body(reason="other"))

    assert (response.status_code, response.json()["error"]) == (409, "IDEMPOTENCY_CONFLICT")


@pytest.mark.parametrize("key", [None, "7-chars", "x" * 65])
def test_checklist_a_missing_or_malformed_key_is_refused(api: Api, key: str | None) -> None:
    response = api.request("POST", "/pdca/recheck", key=key, json=body())

    assert (response.status_code, response.json()["error"]) == (400, "BAD_REQUEST")
    assert "Idempotency-Key" in response.json()["message"]


def test_checklist_a_429_has_retry_after(settings: Callable[..., NatsBackendConfig]) -> None:
    with served(settings("limited", rate_limit_bulk_per_min=1)) as address:
        sent = {"window": {"lookback_days": 7}, "reason": "bulk", "dry_run": True}
        responses = [
            Api(address).request("POST", "/pdca/recheck_all", key=f"checklist-429-{number}", json=sent)
            for number in range(3)
        ]

    refused = responses[-1]
    assert refused.status_code == 429, refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"] == "RATE_LIMITED"
    assert refused.json()["retry_after"] == int(refused.headers["retry-after"])


def assert_uniform(response: httpx.Response) -> None:
    problem = response.json()
    assert problem["error"] == CATALOGUE[response.status_code], response.text
    assert set(problem) == {"error", "message"} | ({"retry_after"} if response.status_code == 429 else set())
    assert isinstance(problem["message"], str)
    assert problem["message"]


def test_checklist_messages_of_404_and_409_are_uniform(api: Api) -> None:
    unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    responses = [
        api.request("GET", f"/pdca/recheck/{unknown}"),
        api.request("GET", f"/gui/requests/{unknown}", audience="pdca.gui"),
        api.request("GET", "/gui/strategies/strat.unknown", audience="pdca.gui"),
        api.request("GET", "/gui/strategies/strat.unknown/results", audience="pdca.gui"),
        api.request("GET", f"/gui/artifacts/{unknown}/url", audience="pdca.gui"),
        api.request("POST", "/pdca/recheck", key="checklist-404", json=body(strategies=["strat.unknown"])),
        api.request("GET", "/pdca/nothing"),
    ]
    conflicts = [
        api.request("POST", "/pdca/recheck", key="checklist-409", json=body(reason=reason)) for reason in ("a", "b")
    ]

    assert {response.status_code for response in responses} == {404}
    assert conflicts[-1].status_code == 409
    for response in (*responses, conflicts[-1]):
        assert_uniform(response)


def test_checklist_messages_of_5xx_are_uniform(settings: Callable[..., NatsBackendConfig], tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, served(settings("without broker", broker.url)) as address:
        broker.kill()
        response = Api(address).request("POST", "/pdca/recheck", key="checklist-5xx", json=body())

    assert response.status_code == 500, response.text
    assert "retry-after" in response.headers
    assert_uniform(response)


def test_checklist_the_log_has_x_request_id_and_request_id(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        response = api.request("POST", "/pdca/recheck", key="checklist-log", json=body())

    x_request_id = response.headers["x-request-id"]
    assert ULID.fullmatch(x_request_id)
    logged = [(getattr(record, "x_request_id", None), getattr(record, "request_id", None)) for record in caplog.records]
    assert (x_request_id, response.json()["request_id"]) in logged


def test_checklist_no_secret_is_in_the_log_or_in_errors(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    good = token("pdca")
    secrets = [good, good[:-4] + "AAAA", "top-secret-param"]
    with caplog.at_level(logging.DEBUG, "pyoco_server"):
        responses = [
            httpx.post(
                f"{api.address}/pdca/recheck",
                headers=bearer_headers(credentials) | {"Idempotency-Key": f"checklist-secret-{number}"},
                json=body(params={"retrain": "top-secret-param"}),
            )
            for number, credentials in enumerate(secrets[:2])
        ]

    assert [response.status_code for response in responses] == [400, 401]
    written = " ".join(str(record.__dict__) for record in caplog.records)
    for secret in secrets:
        assert secret not in written
        assert all(secret not in response.text for response in responses)
    assert all("Traceback" not in response.text for response in responses)


@pytest.mark.parametrize(
    ("query", "total"),
    [({}, 25), ({"tags_any": "daily"}, 12), ({"q": "trend"}, 24), ({"health": "healthy"}, 0), ({"enabled": "off"}, 0)],
)
def test_checklist_total_is_right_on_every_page(api: Api, query: dict[str, Any], total: int) -> None:
    found: list[str] = []
    for page in range(1, 5):
        sent = query | {"page": page, "page_size": 10, "sort": "id.asc"}
        response = api.request("GET", "/gui/strategies", audience="pdca.gui", params=sent)
        assert response.status_code == 200, response.text
        assert response.json()["total"] == total
        found += [item["id"] for item in response.json()["items"]]

    assert len(found) == len(set(found)) == total
    assert found == sorted(found)


def run_batches(config: NatsBackendConfig, api: Api, request_id: str) -> None:
    """Lets a worker take batches until the request has ended."""

    async def work() -> None:
        async with await PyocoNatsWorker.connect(config, resolve, "worker-1", ["default"]) as worker:
            async with asyncio.timeout(PATIENCE_SEC):
                while api.request("GET", f"/pdca/recheck/{request_id}").json()["status"] == "running":
                    await worker.run_once(timeout=0.2)

    asyncio.run(work())


def test_checklist_examples_equal_real_answers(settings: Callable[..., NatsBackendConfig], tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, served(config := settings("examples", broker.url)) as address:
        api = Api(address)
        strategy = {"title": "Mean reversion", "instrument": "USDJPY", "tags": ["daily"]}
        registered = api.request("PUT", f"/pdca/strategies/{KNOWN}", json=strategy).json()
        accepted = api.request("POST", "/pdca/recheck", key="checklist-example", json=body()).json()
        bulk = {"window": {"lookback_days": 7}, "reason": "bulk", "dry_run": True}
        estimated = api.request("POST", "/pdca/recheck_all", key="checklist-example-all", json=bulk).json()
        run_batches(config, api, accepted["request_id"])

        def shown(path: str) -> Any:
            audience = "pdca.gui" if path.startswith("/gui") else "pdca"
            return api.request("GET", path, audience=audience).raise_for_status().json()

        progress = shown(f"/pdca/recheck/{accepted['request_id']}")
        real = {
            ("put", "/pdca/strategies/{id}", "201"): registered,
            ("post", "/pdca/recheck", "202"): accepted,
            ("post", "/pdca/recheck_all", "202"): estimated,
            ("get", "/pdca/recheck/{request_id}", "200"): progress,
            ("get", "/gui/requests/{request_id}", "200"): shown(f"/gui/requests/{accepted['request_id']}"),
            ("get", "/gui/artifacts/{id}/url", "200"): shown(f"/gui/artifacts/{progress['artifacts'][0]['id']}/url"),
            ("get", "/gui/strategies", "200"): shown("/gui/strategies"),
            ("get", "/gui/strategies/{id}", "200"): shown(f"/gui/strategies/{KNOWN}"),
            ("get", "/gui/strategies/{id}/results", "200"): shown(f"/gui/strategies/{KNOWN}/results"),
        }

    for (method, path, status), answer in real.items():
        content = document().content["paths"][path][method]["responses"][status]["content"]["application/json"]
        assert differences(content["example"], answer, content["schema"]) == [], path
