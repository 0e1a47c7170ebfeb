"""Alert rules with promtool, and every expression of dashboard and alerts on a real Prometheus that scrapes a gateway.

`scripts/ci-packages` installs Prometheus. Without it these tests are skipped, and fail with CI=true.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml

from support.processes import port_of, reserve_port
from support.programs import ROOT, Program, connected, run_of, until, up_with_worker

pytestmark = pytest.mark.prometheus

RULES = ROOT / "deploy" / "prometheus" / "pyoco-alerts.yml"
RULE_TESTS = RULES.with_name("pyoco-alerts.test.yml")
SCRAPE_EXAMPLE = RULES.with_name("prometheus.yml")
DASHBOARD = orjson.loads((ROOT / "deploy" / "grafana" / "pyoco-server.json").read_bytes())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
EXPRESSIONS = [
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
    *((rule["alert"], rule["expr"]) for rule in ALERTS),
]
# Panels without data in this test: nothing waits, nobody calls /pdca, and there is no Airflow.
EMPTY = {
    "Oldest waiting run by tag",
    "PDCA requests per second",
    "PDCA latency",
    "Requests to Airflow per second",
    "Airflow's circuit breaker",
    "Errors per second",
}
# Its unit and `_total` at gauges are part of the contract.
ACCEPTED_COMPLAINTS = {
    "pdca_api_latency_ms metric names should not contain abbreviated units",
    'pyoco_dlq_messages_total non-counter metrics should not have "_total" suffix',
    'pyoco_runs_total non-counter metrics should not have "_total" suffix',
    'pyoco_workers_alive_total non-counter metrics should not have "_total" suffix',
}
WORDS = {"by", "or", "on", "and", "vector"}


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        why = f"{name} is not installed; scripts/ci-packages installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return found


def promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    done = subprocess.run([program("promtool"), *arguments], input=given, capture_output=True, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


class Prometheus:
    """A Prometheus that has scraped a gateway after a flow has run there."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result; an invalid expression raises."""
        answer = self._http.get("/query", params={"query": expression.replace("$__rate_interval", "1m")})
        body = answer.json()
        assert body["status"] == "success", body
        result: list[dict[str, Any]] = body["data"]["result"]
        return result

    def knows(self, metric: str) -> bool:
        """Whether a scrape has declared the metric, with samples or without."""
        family = re.sub("_(bucket|sum|count)$", "", metric)
        names = {metric, family} & self._http.get("/metadata", params={"limit": 10_000}).json()["data"].keys()
        return bool(names) or bool(self.query(f"count({metric})"))

    def is_ready(self) -> bool:
        try:
            return self._http.get("/status/runtimeinfo").is_success and bool(
                self.query('min_over_time(pyoco_runs_finished_total{status="COMPLETED"}[1m]) > 0')
                and self.query("count_over_time(pyoco_runs_total[1m]) > 2")
            )
        except httpx.TransportError:
            return False


def has_status(status: str, run: dict[str, Any]) -> bool:
    return bool(run["status"] == status)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A gateway at which a run has succeeded, one has failed, and a request was refused."""
    program("prometheus")
    with up_with_worker(tmp_path_factory.mktemp("gateway")) as running, connected(running) as client:
        for flow_name, status in (("sum", "COMPLETED"), ("fails", "FAILED")):
            run_id = client.post("/runs", json={"flow_name": flow_name}).json()["run_id"]
            until(partial(run_of, client, run_id), partial(has_status, status))
        assert client.get("/runs/none").status_code == 404
        yield client


@pytest.fixture(scope="module")
def prometheus(gateway: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    settings = yaml.safe_load(SCRAPE_EXAMPLE.read_text())
    (job,) = settings["scrape_configs"]
    job["static_configs"] = [{"targets": [f"{gateway.base_url.host}:{gateway.base_url.port}"]}]
    del job["authorization"]
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(RULES)]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    with reserve_port() as reserved:
        address = f"127.0.0.1:{port_of(reserved)}"
        arguments = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
        listen = f"--web.listen-address={address}"
        started = Program(*arguments, listen, cwd=folder, program=program("prometheus"))
        with started, httpx.Client(base_url=f"http://{address}/api/v1", timeout=30.0) as http:
            found = Prometheus(http)
            until(found.is_ready, bool)
            yield found


def metrics_in(expression: str) -> set[str]:
    """The names of metrics in an expression: the words that are no function, label, number or text."""
    named = set(re.findall(r'__name__=~"([^"]*)"', expression))
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", expression)
    bare = re.sub(r"\bby \([^)]*\)", "", bare)
    words = set(re.findall(r"\b[a-zA-Z_]\w*\b(?! *\()", bare)) - WORDS
    return words | {one for names in named for one in names.split("|")}


def test_the_alert_rules_are_valid() -> None:
    code, said = promtool("check", "rules", str(RULES))

    assert code == 0, said


def test_the_alerts_fire_when_they_should_and_not_before() -> None:
    code, said = promtool("test", "rules", str(RULE_TESTS))

    assert code == 0, said


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["annotations"].keys() == {"summary", "runbook"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_the_metrics_of_a_gateway_have_no_other_flaws_than_the_names_of_the_contract(gateway: httpx.Client) -> None:
    code, said = promtool("check", "metrics", given=gateway.get("/metrics").content)

    # promtool looks at families with samples only.
    assert code == 3, said
    assert set(said.splitlines()) <= ACCEPTED_COMPLAINTS


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_an_expression_names_only_metrics_that_a_gateway_has(
    prometheus: Prometheus, title: str, expression: str
) -> None:
    prometheus.query(expression)

    unknown = {name for name in metrics_in(expression) if not prometheus.knows(name)}
    assert not unknown


def test_every_panel_shows_data_of_a_gateway_that_has_run_a_flow(prometheus: Prometheus) -> None:
    empty = {
        panel["title"] for panel in PANELS if not any(prometheus.query(target["expr"]) for target in panel["targets"])
    }

    assert empty == EMPTY


def test_an_unknown_metric_is_noticed(prometheus: Prometheus) -> None:
    expression = 'sum by (tag) (rate(pyoco_no_such_metric_total{tag="x"}[5m])) or vector(0)'

    assert metrics_in(expression) == {"pyoco_no_such_metric_total"}
    assert not prometheus.knows("pyoco_no_such_metric_total")


def test_the_dashboard_can_be_imported(tmp_path: Path) -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]

    assert len({*ids}) == len(ids)
    assert len({*places}) == len(places)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)
    assert all(panel["title"] and panel["description"] for panel in PANELS)
