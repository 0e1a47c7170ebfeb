"""The command tree: every command has a valid example and rejects invalid arguments."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.cli.client.program import ALL_COMMANDS, app
from support.shells import RunClient
from support.stand_in import Refusal, StandIn

ROOT = Path(__file__).resolve().parents[2]
RUN_ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
START = "from pyoco_server.cli.client.program import main; main()"
NAMES = [entry.name for entry in ALL_COMMANDS]
OF_THE_CONTRACT = {
    *(
        "submit",
        "submit-yaml",
        "get",
        "tasks",
        "list",
        "list-vnext",
        "watch",
        "cancel",
        "explain",
        "workers",
        "metrics",
    ),
    *("dlq", "dlq-replay", "wheels", "wheel-history", "wheel-upload", "wheel-delete", "init", "doctor"),
}
WHEEL: dict[str, Any] = {
    "name": "demo-1.0-py3-none-any.whl",
    "size_bytes": 1_500_000,
    "tags": ["gpu"],
    "sha256_hex": "abcdef0123456789",
}
WHEEL_EVENT = {
    "action": "upload",
    "wheel_name": WHEEL["name"],
    "tags": [],
    "source": {"client": "10.0.0.7"},
    "actor": {"kind": "api_key", "tenant_id": "team-a", "api_key_id": "k-1"},
}
RUN = {
    "run_id": RUN_ID,
    "status": "COMPLETED",
    "flow_name": "hello",
    "tasks": {"greet": "SUCCEEDED"},
    "updated_at": 1.0,
}
LETTER = {"seq": 42, "timestamp": 1.0, "reason": "max_deliver", "run_id": RUN_ID, "flow_name": "hello", "tag": "gpu"}

OVERVIEW = {
    "runs": {"PENDING": 2, "FAILED": 0},
    "queues": [{"tag": "gpu", "pending": 2, "oldest_since": 1.0, "workers": 0, "slots": 0, "slots_free": 0}],
    "workers": None,
    "waits": 1,
    "dead_letters": 0,
    "health": {"status": "unready", "reasons": [{"detail": "the disk is full\x1b[2J"}], "index_behind": 0},
    "durability": "fsynced",
}
STATS = {
    "at": 60,
    "submitted": 3,
    "completed": 1,
    "failed": 0,
    "cancelled": 0,
    "queue_p50_sec": 0.25,
    "queue_p95_sec": None,
    "run_p50_sec": 61.0,
    "run_p95_sec": 61.0,
}

LINE = {
    "n": 1,
    "ts": 1.0,
    "task": "greet",
    "level": "INFO",
    "stream": "stdout",
    "message": "hello\x1b[2J",
    "attempt": 1,
}


pytestmark = pytest.mark.usefixtures("clean_client")


@pytest.fixture
def responses() -> dict[str, Any]:
    return {
        "/runs": [RUN],
        f"/runs/{RUN_ID}": RUN,
        f"/runs/{RUN_ID}/tasks": RUN | {"task_records": {}},
        f"/runs/{RUN_ID}/cancel": RUN,
        f"/runs/{RUN_ID}/logs": {"run_id": RUN_ID, "items": [LINE], "next_token": "t", "complete": True},
        f"/runs/{RUN_ID}/explain": {"run_id": RUN_ID, "status": "COMPLETED", "summary": "it went well"},
        "/workers": [{"worker_id": "w-1", "state": "IDLE", "tags": ["default"]}],
        "/workers/w-1": {"worker_id": "w-1", "hidden": True, "updated_at": 1.0},
        "/dlq": {"items": [LETTER], "next_cursor": "41"},
        "/dlq/42/replay": {"run_id": RUN_ID, "status": "PENDING", "replay_of": {"seq": 42, "run_id": RUN_ID}},
        "/wheels": [WHEEL],
        "/wheels/history": [WHEEL_EVENT],
        f"/wheels/{WHEEL['name']}": {"name": WHEEL["name"], "deleted": True},
        "/overview": OVERVIEW,
        "/stats": {"points": [STATS], "total": STATS},
        "/metrics": 'pyoco_runs_total{status="COMPLETED"} 1\n',
    }


def test_all_commands_of_the_contract_exist() -> None:
    assert set(NAMES) >= OF_THE_CONTRACT


@pytest.mark.parametrize("name", ["", "job", *NAMES])
def test_every_help_has_an_example(end: RunClient, name: str) -> None:
    assert end(*name.split(), "--help") == 0
    assert f"Example: pyoco-client {name}" in " ".join(end.printed().out.split())


@pytest.mark.parametrize("entry", ALL_COMMANDS, ids=NAMES)
def test_every_example_can_be_parsed(entry: Any) -> None:
    words = shlex.split(entry.example.partition(" | ")[0].partition(" >> ")[0])
    *groups, name = entry.name.split()
    group: Any = typer.main.get_command(app)
    for word in groups:
        group = group.commands[word]

    with group.commands[name].make_context(name, words[len(groups) + 1 :]) as context:
        assert words[: len(groups) + 1] == [*groups, name]
        assert context.args == []


def test_a_command_that_prints_json_does_not_load_rich(server: StandIn) -> None:
    listing = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); " + START

    ended = subprocess.run(
        [sys.executable, "-c", listing, "list", "--limit", "1"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=True,
        text=True,
    )

    assert {"rich", "yaml", "fastapi", "nats"} & set(ended.stderr.split()) == set()


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version_needs_no_server(end: RunClient, arguments: list[str]) -> None:
    assert end(*arguments) == 0
    assert end.printed().out.startswith("pyoco-client ")


def test_params_go_to_the_server_in_the_order_of_the_command_line(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"run_id": RUN_ID, "status": "PENDING"}
    options = ["--param", "a=1", "--params", '{"a": 2, "b": 2}', "--param", "b=3", "--tags", "x, y", "--tags", "z"]
    options += ["--run-timeout-sec", "90"]

    code = end("submit", "--flow-name", "hello", "--tag", "gpu", *options)

    assert code == 0
    assert json.loads(server.bodies[0]) == {
        "flow_name": "hello",
        "params": {"a": 2, "b": 3},
        "tag": "gpu",
        "tags": ["x", "y", "z"],
        "timeout_sec": 90.0,
        "strict": True,
    }


def test_a_rerun_sends_the_params_that_change(end: RunClient, server: StandIn) -> None:
    server.responses[f"/runs/{RUN_ID}/rerun"] = {"run_id": RUN_ID, "status": "PENDING", "rerun_of": RUN_ID}

    code = end("rerun", RUN_ID, "--param", "n=2")

    assert code == 0
    assert server.requests == [("POST", f"/runs/{RUN_ID}/rerun")]
    assert json.loads(server.bodies[0]) == {"params": {"n": 2}, "strict": True}


FLOW: dict[str, Any] = {
    "name": "etl",
    "tags": ["default", "gpu"],
    "workers": 2,
    "params": [{"name": "path", "required": True}],
    "takes_others": False,
    "recent": {"runs": 3, "statuses": {"COMPLETED": 2, "FAILED": 1}, "median_sec": 0.5, "p95_sec": 61},
    "versions": [
        {
            "tags": ["gpu"],
            "workers": 1,
            "params": [{"name": "path", "required": True}],
            "takes_others": False,
            "nodes": ["load", "save"],
            "edges": [["load", "save"]],
        },
        {"tags": ["default"], "workers": 1, "params": None, "takes_others": True, "nodes": [], "edges": []},
    ],
}


def test_a_flow_is_drawn_with_its_parameters_and_figures(end: RunClient, server: StandIn) -> None:
    server.responses["/flows/a%2Fb"] = FLOW | {"name": "a/b"}

    assert end("graph", "a/b") == 0
    printed = end.printed()
    assert printed.out.splitlines() == [
        "a/b  tags: gpu  workers: 1",
        "parameters: path*",
        "last runs: 2 COMPLETED, 1 FAILED; median 500ms, p95 1m01s",
        "  load",
        "  save  <- load",
    ]
    assert "under these tags: default" in printed.err


def test_a_flow_is_drawn_as_mermaid_and_by_tag(end: RunClient, server: StandIn) -> None:
    server.responses["/flows/etl"] = FLOW

    assert end("graph", "etl", "--mermaid") == 0
    assert end.printed().out.splitlines()[-1] == "    n0 --> n1"
    assert end("graph", "etl", "--tag", "default") == 0
    assert "the graph is not known" in end.printed().err
    assert end("graph", "etl", "--tag", "cpu") == 1
    assert "example: pyoco-client graph etl --tag default" in end.printed().err


def test_a_stored_graph_is_drawn_where_no_flow_has_its_name(end: RunClient, server: StandIn) -> None:
    missing = Refusal(404, "ERR-PYOCO-0084", "no running worker announces the flow 'release'")
    document = {"nodes": [{"id": "ask"}, {"id": "ship"}], "edges": [{"from": "ask", "to": "ship", "when": ["yes"]}]}
    server.responses |= {"/flows/release": missing, "/graphs/release": document, "/flows/relaese": missing}

    assert end("graph", "release") == 0
    assert end.printed().out.splitlines() == ["  ask", "  ship  <- ask if yes"]
    assert end("graph", "relaese") == 1
    assert "ERR-PYOCO-0084" in end.printed().err


def test_flows_are_a_table(end: RunClient, server: StandIn) -> None:
    server.responses["/flows"] = {"items": [FLOW], "next_cursor": "c-2"}

    assert end("flows") == 0
    printed = end.printed()
    assert printed.out.splitlines()[1].split()[:4] == ["etl", "default,gpu", "2", "path*"]
    assert "--cursor c-2" in printed.err


STRATEGY: dict[str, Any] = {
    "id": "strat.a",
    "title": "evil\x1b[2J\u202e",
    "instrument": "USDJPY",
    "enabled": False,
    "tags": ["daily", "fx"],
    "last_health": "degraded",
    "last_checked_at": None,
}


def test_strategies_are_a_table_and_the_next_page_is_named(end: RunClient, server: StandIn) -> None:
    server.responses["/gui/strategies"] = {"items": [STRATEGY], "page": 2, "page_size": 10, "total": 21}
    options = ["-q", "a", "--tag", "daily,fx", "--health", "degraded", "--health", "unknown", "--instrument", "USDJPY"]
    options += ["--enabled", "off", "--sort", "id.asc", "--page", "2", "--page-size", "10"]

    assert end("strategies", *options) == 0

    filters = "q=a&tags_any=daily%2Cfx&health=degraded%2Cunknown&instrument=USDJPY&enabled=off&sort=id.asc"
    printed = end.printed()
    assert server.requests == [("GET", f"/gui/strategies?{filters}&page=2&page_size=10")]
    assert printed.out.splitlines() == [
        "STRATEGY  HEALTH    CHECKED  INSTRUMENT  ENABLED  TAGS      TITLE",
        "strat.a   degraded  -        USDJPY      off      daily,fx  evil\ufffd[2J\ufffd",
    ]
    assert printed.err == "next page: --page 3 (21 strategies)\n"


def test_the_last_page_of_strategies_names_no_other(end: RunClient, server: StandIn) -> None:
    server.responses["/gui/strategies"] = {"items": [STRATEGY], "page": 3, "page_size": 10, "total": 30}

    assert end("strategies", "--json", "id,last_health") == 0

    printed = end.printed()
    assert (json.loads(printed.out), printed.err) == ([{"id": "strat.a", "last_health": "degraded"}], "")


def test_a_strategy_is_shown_with_its_results(end: RunClient, server: StandIn) -> None:
    result = {
        "request_id": "01KADZ2F8MFH6STG3F1GXHMBJN",
        "checked_at": None,
        "health": "healthy",
        "kpi": {"sharpe": 1.23456},
        "artifacts": [{"name": "report.md\x1b[2J"}],
    }
    found = {
        "strategy": STRATEGY,
        "summary": {"window_days": 7, "kpi_avg": {"sharpe": 1.2, "max_dd": -0.08}},
        "recent_results": [result],
        "artifacts": [],
    }
    server.responses["/gui/strategies/strat.a"] = found

    assert end("strategy", "strat.a", "--days", "7", "--limit", "5") == 0
    shown = end.printed().out.splitlines()
    assert end("strategy", "strat.a", "-o", "json") == 0
    assert json.loads(end.printed().out) == found

    assert server.requests[0] == ("GET", "/gui/strategies/strat.a?summary_window_days=7&limit_history=5")
    assert shown == [
        "strategy:   strat.a",
        "title:      evil\ufffd[2J\ufffd",
        "health:     degraded",
        "instrument: USDJPY",
        "enabled:    off",
        "tags:       daily,fx",
        "days:       7",
        "averages:   sharpe 1.2,max_dd -0.08",
        "",
        "WHEN  HEALTH   WINRATE  SHARPE  MAX_DD  REQUEST_ID                  FILES",
        "-     healthy  -        1.235   -       01KADZ2F8MFH6STG3F1GXHMBJN  report.md\ufffd[2J",
    ]


def test_a_recheck_is_shown_with_its_progress(end: RunClient, server: StandIn) -> None:
    server.responses["/pdca/recheck/01KADZ2F8M"] = {
        "request_id": "01KADZ2F8M",
        "status": "running",
        "progress": {
            "total_batches": 2,
            "completed_batches": 1,
            "total_strategies": 30,
            "completed_strategies": 25,
        },
        "summary": {"success": 25, "failed": 0, "health": {"healthy": 24, "degraded": 1, "unknown": 0}},
        "artifacts": [{"name": "report.md"}],
        "dag": {"name": "pdca.recheck", "run_ids": [RUN_ID]},
        "note": "engine unreachable",
    }

    assert end("recheck", "01KADZ2F8M") == 0

    assert end.printed().out.splitlines() == [
        "request:    01KADZ2F8M",
        "status:     running",
        "note:       engine unreachable",
        "batches:    1/2",
        "strategies: 25/30",
        "succeeded:  25",
        "failed:     0",
        "health:     healthy 24,degraded 1,unknown 0",
        "engine:     pdca.recheck",
        "files:      1",
    ]


@pytest.mark.parametrize(
    ("arguments", "what", "example"),
    [
        (["strategy", "a/b"], "'a/b' is not a strategy id", "strategy strat.meanrev.m1"),
        (["recheck", "../runs"], "'../runs' is not a request id", "recheck 01KADZ2F8MFH6STG3F1GXHMBJN"),
    ],
)
def test_an_id_that_cannot_stand_in_a_path_is_refused(
    end: RunClient, server: StandIn, arguments: list[str], what: str, example: str
) -> None:
    assert end(*arguments) == 1

    printed = end.printed()
    assert what in printed.err
    assert f"example: pyoco-client {example}" in printed.err
    assert server.requests == []


def test_no_strict_queues_what_no_worker_can_run_and_prints_the_warnings(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"run_id": RUN_ID, "status": "PENDING", "warnings": ["no worker \x1b[31mserves it"]}

    code = end("submit", "--flow-name", "hello", "--no-strict")

    assert code == 0
    assert "strict" not in json.loads(server.bodies[0])
    assert end.printed().err == "warning: no worker \N{REPLACEMENT CHARACTER}[31mserves it\n"


@pytest.mark.parametrize(
    ("run", "code", "out", "words"),
    [
        ({"status": "COMPLETED", "result": {"rows": 3}}, 0, '{\n  "rows": 3\n}\n', ""),
        ({"status": "COMPLETED", "result": None}, 0, "null\n", ""),
        (
            {"status": "RUNNING"},
            1,
            "",
            f"has no result yet: it is RUNNING\nhint: Wait for it: pyoco-client result {RUN_ID}",
        ),
        ({"status": "COMPLETED"}, 1, "", "which task is its last one is not known"),
        (
            {"status": "FAILED", "error": "no disk", "error_code": "ERR-PYOCO-0006"},
            1,
            "",
            "it is FAILED: no disk [ERR-",
        ),
        ({"status": "COMPLETED", "result": None, "result_truncated": True}, 1, "", "was too large to be kept"),
        (
            {"status": "COMPLETED", "result": {"truncated": True, "bytes": 70_000}, "result_truncated": True},
            1,
            "",
            "was too large to be kept (70000 bytes)",
        ),
    ],
)
def test_a_result_is_printed_as_json_or_its_absence_explained(
    end: RunClient, server: StandIn, run: dict[str, Any], code: int, out: str, words: str
) -> None:
    server.responses[f"/runs/{RUN_ID}"] = RUN | {"run_id": RUN_ID} | run

    assert end("result", RUN_ID) == code
    printed = end.printed()
    assert printed.out == out
    assert words in printed.err


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        (["get", RUN_ID], ("GET", f"/runs/{RUN_ID}")),
        (["get", "--run-id", RUN_ID, "--include", "full"], ("GET", f"/runs/{RUN_ID}?include=full")),
        (["get", RUN_ID, "--run-id", RUN_ID], ("GET", f"/runs/{RUN_ID}")),
        (["tasks", RUN_ID], ("GET", f"/runs/{RUN_ID}/tasks")),
        (["cancel", "--run-id", RUN_ID], ("POST", f"/runs/{RUN_ID}/cancel")),
        (["explain", RUN_ID, "-o", "json"], ("GET", f"/runs/{RUN_ID}/explain")),
        (
            ["list", "--status", "failed", "--flow", "f", "--tag", "t", "--tags", "a,b", "--limit", "3"],
            ("GET", "/runs?status=FAILED&flow=f&tag=t&tags=a&tags=b&limit=3"),
        ),
        (["workers"], ("GET", "/workers")),
        (
            ["workers", "--scope", "all", "--state", "idle", "--include-hidden", "--limit", "9"],
            ("GET", "/workers?scope=all&state=IDLE&include_hidden=true&limit=9"),
        ),
        (["workers", "--hide", "w-1"], ("PATCH", "/workers/w-1")),
        (
            ["dlq", "--reason", "max_deliver", "--tag", "gpu", "--flow", "f", "--limit", "5", "--cursor", "9"],
            ("GET", "/dlq?reason=max_deliver&tag=gpu&flow=f&limit=5&cursor=9"),
        ),
        (["dlq-replay", "--seq", "42"], ("POST", "/dlq/42/replay")),
        (["wheels"], ("GET", "/wheels")),
        (
            ["wheel-history", "--limit", "3", "--wheel-name", WHEEL["name"], "--action", "upload"],
            ("GET", f"/wheels/history?limit=3&wheel_name={WHEEL['name']}&action=upload"),
        ),
        (["wheel-delete", "--wheel-name", WHEEL["name"]], ("DELETE", f"/wheels/{WHEEL['name']}")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_sends_one_request_and_prints_the_response_as_json(
    end: RunClient, server: StandIn, arguments: list[str], requests: tuple[str, str]
) -> None:
    assert end(*arguments) == 0

    assert server.requests == [requests]
    assert json.loads(end.printed().out) == server.responses[requests[1].partition("?")[0]]


def test_a_search_by_error_lists_runs_until_there_are_enough(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"items": [RUN, RUN], "next_cursor": "c-2"}

    code = end("list", "--error", "connection refused", "--limit", "3")

    asked = "/runs?limit=3&error=connection+refused&cursor="
    assert code == 0
    assert json.loads(end.printed().out) == [RUN, RUN, RUN]
    assert server.requests == [("GET", asked), ("GET", asked + "c-2")]


def test_runs_are_listed_by_the_beginning_of_their_ids(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = [RUN]

    assert end("list", "--id-prefix", "019a7c3e") == 0

    assert server.requests == [("GET", "/runs?id_prefix=019a7c3e")]
    assert json.loads(end.printed().out) == [RUN]


def test_the_next_cursor_of_a_page_is_printed_on_stderr(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"items": [RUN], "next_cursor": "c-2"}
    sha256 = "0" * 64

    code = end("list-vnext", "--updated-after", "5", "--sha256", sha256, "--cursor", "c-1", "-o", "table")

    printed = end.printed()
    assert code == 0
    assert server.requests == [("GET", f"/runs?cursor=c-1&updated_after=5.0&workflow_yaml_sha256={sha256}")]
    assert printed.out.splitlines()[1].startswith(RUN_ID)
    assert printed.err == "next page: --cursor c-2\n"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["get", RUN_ID, "-o", "status"], f"{RUN_ID} COMPLETED\n"),
        (["tasks", RUN_ID, "-o", "status"], "greet SUCCEEDED\n"),
        (["tasks", RUN_ID, "-o", "table"], "   TASK   STATUS     TIME  DETAIL\n✓  greet  SUCCEEDED  -\n"),
        (["explain", RUN_ID], f"{RUN_ID} COMPLETED\nit went well\n"),
        (["metrics"], 'pyoco_runs_total{status="COMPLETED"} 1\n'),
        (
            ["overview"],
            "gateway: unready (fsynced)\n  the disk is full\ufffd[2J\nruns: PENDING 2, FAILED 0\n"
            "queue gpu: 2 waiting, workers 0, free slots 0\nwaits: 1\ndead letters: 0\n",
        ),
        (
            ["wheels", "-o", "table"],
            "WHEEL                      SIZE    TAGS  TENANT  MODIFIED  SHA256\n"
            "demo-1.0-py3-none-any.whl  1.5 MB  gpu   -       -         abcdef012345\n",
        ),
        (
            ["wheel-history", "-o", "table"],
            "WHEN  ACTION  WHEEL                      TAGS  ACTOR       SOURCE\n"
            "-     upload  demo-1.0-py3-none-any.whl  -     team-a/k-1  10.0.0.7\n",
        ),
        (["logs", RUN_ID], "1970-01-01T00:00:01.000Z greet hello\ufffd[2J\n"),
        (["logs", RUN_ID, "-f", "--tail", "5"], "1970-01-01T00:00:01.000Z greet hello\ufffd[2J\n"),
    ],
)
def test_text_forms_print_lines_and_tables(end: RunClient, server: StandIn, arguments: list[str], shown: str) -> None:
    assert end(*arguments) == 0
    assert end.printed().out == shown


def test_the_lines_of_a_log_are_json_lines_for_programs(end: RunClient, server: StandIn) -> None:
    page = server.responses[f"/runs/{RUN_ID}/logs"]
    server.responses[f"/runs/{RUN_ID}/logs"] = page | {"items": [LINE, LINE | {"n": 2}]}

    assert end("logs", RUN_ID, "-o", "json", "--tail", "7") == 0

    assert [json.loads(line)["n"] for line in end.printed().out.splitlines()] == [1, 2]
    assert server.requests == [("GET", f"/runs/{RUN_ID}/logs?tail=7")]


def test_a_search_prints_numbered_lines(end: RunClient, server: StandIn) -> None:
    path = f"/runs/{RUN_ID}/logs"
    server.responses[path] = server.responses[path] | {"scanned_to": 30, "lines": 30}

    assert end("logs", RUN_ID, "--search", "hello", "--task", "greet") == 0

    assert end.printed().out == "1 1970-01-01T00:00:01.000Z greet hello\ufffd[2J\n"
    assert server.requests == [("GET", f"{path}?limit=10000&q=hello&task=greet")]


def test_a_search_does_not_follow(end: RunClient, server: StandIn) -> None:
    assert end("logs", RUN_ID, "--follow", "--search", "hello") == 1

    assert "--search selects from those stored" in end.printed().err
    assert server.requests == []


@pytest.mark.parametrize("before", [True, False])
def test_the_server_option_may_precede_or_follow_the_command(
    end: RunClient, monkeypatch: pytest.MonkeyPatch, server: StandIn, before: bool
) -> None:
    monkeypatch.setenv("PYOCO_SERVER", "http://127.0.0.1:1")
    options = ["--server", server.address, "--token", "t-1"]

    code = end(*(options if before else []), "metrics", *([] if before else options))

    assert code == 0
    assert server.headers[0]["Authorization"] == "Bearer t-1"


def test_a_key_is_sent_in_the_header_of_the_server(
    end: RunClient, monkeypatch: pytest.MonkeyPatch, server: StandIn
) -> None:
    monkeypatch.setenv("PYOCO_HTTP_API_KEY_HEADER", "X-Team-Key")
    monkeypatch.setenv("PYOCO_API_KEY", "k-1")

    assert end("metrics") == 0
    assert server.headers[0]["X-Team-Key"] == "k-1"


def test_init_writes_a_flow_and_prints_how_to_run_it(end: RunClient, tmp_path: Path) -> None:
    folder = tmp_path / "my first"

    assert end("init", str(folder)) == 0

    flow = read_flow_file((folder / "flow.yaml").read_bytes())
    assert list(flow.tasks) == ["words", "count", "report"]
    assert f"cd '{folder}' && pyoco-client submit-yaml --workflow-file flow.yaml" in end.printed().out
    compile((folder / "tasks.py").read_text(), "tasks.py", "exec")


def test_init_overwrites_files_only_with_force(end: RunClient, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("mine")

    assert end("init", str(tmp_path)) == 1
    assert (tmp_path / "tasks.py").read_text() == "mine"
    assert not (tmp_path / "flow.yaml").exists()
    assert "--force" in end.printed().err

    assert end("init", str(tmp_path), "--force") == 0
    assert (tmp_path / "tasks.py").read_text() != "mine"


def test_init_reports_a_folder_that_is_not_writable(end: RunClient, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert end("init", str(tmp_path / "file" / "below")) == 1
    assert "[ERR-PYOCO-0018]" in end.printed().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(end: RunClient, shell: str) -> None:
    assert end("completion", shell) == 0
    assert f"_PYOCO_CLIENT_COMPLETE=complete_{shell}" in end.printed().out


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_completion_works_in_a_zsh_without_configuration(end: RunClient, tmp_path: Path) -> None:
    assert end("completion", "zsh") == 0
    script = tmp_path / ".zshrc"
    script.write_text(end.printed().out)

    shell = subprocess.run(
        ["zsh", "-fc", "source ./.zshrc && print ${_comps[pyoco-client]}"],
        cwd=tmp_path,
        env=os.environ | {"ZDOTDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (shell.stdout.strip(), shell.stderr) == ("_pyoco_client_completion", "")


def completed(words: str) -> list[str]:
    """What a bash completes; nothing may be printed beside it."""
    environment = {
        "PYTHONPATH": str(ROOT / "src"),
        "_PYOCO_CLIENT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    printed = subprocess.run(
        [sys.executable, "-c", START], env=os.environ | environment, capture_output=True, check=True, text=True
    )
    assert printed.stderr == ""
    return printed.stdout.split()


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("pyoco-client sub") == ["submit", "submit-yaml"]
    assert completed("pyoco-client watch --unt") == ["--until-terminal"]
    assert completed("pyoco-client list --output ") == ["json", "table"]
    assert completed("pyoco-client job ta") == ["tag", "tags"]
    assert completed("pyoco-client job logs --lev") == ["--level"]
    assert completed("pyoco-client job ls --status c") == ["completed", "cancelled", "canceled"]


def test_flows_tags_and_ids_are_completed_from_the_server(server: StandIn) -> None:
    server.responses["/graphs"] = {
        "items": [{"graphId": "hello", "source": "flow"}, {"graphId": "help", "source": "graph"}],
        "nextCursor": None,
    }
    server.responses["/runs"] = [RUN | {"tag": "gpu"}, RUN | {"tag": "cpu"}]

    assert completed("pyoco-client submit he") == ["hello"]
    assert completed("pyoco-client execute he") == ["hello", "help"]
    assert completed("pyoco-client submit hello na") == []
    assert completed("pyoco-client submit --queue g") == ["gpu"]
    assert completed("pyoco-client cancel 0190") == [RUN_ID]
    assert completed(f"pyoco-client --server {server.address} watch ") == [RUN_ID]


def test_names_that_a_shell_would_evaluate_are_not_completed(server: StandIn) -> None:
    hostile = [
        "\\$(reboot)",
        "$(reboot)",
        "`reboot`",
        "a;reboot",
        '\\";reboot',
        "a'b",
        "a\nb",
        "--server=x",
        "a --server=x",
        "",
    ]
    names = [*hostile, "集計.v2"]
    server.responses["/graphs"] = {
        "items": [{"graphId": name, "source": "graph"} for name in names],
        "nextCursor": None,
    }

    assert completed("pyoco-client execute ") == ["集計.v2"]


def test_completion_is_silent_where_the_server_does_not_answer(server: StandIn) -> None:
    server.responses["/graphs"] = Refusal(401, "ERR-PYOCO-0014", "no credentials")

    assert completed("pyoco-client submit he") == []
    assert completed("pyoco-client --server http://127.0.0.1:1 watch ") == []
    assert completed("pyoco-client --profile gone watch ") == []


def test_without_a_command_the_help_is_shown(end: RunClient) -> None:
    assert end() == 0
    assert "Usage: pyoco-client [OPTIONS] COMMAND [ARGS]..." in end.printed().out


def test_time_series_are_a_table_of_intervals(end: RunClient, server: StandIn) -> None:
    options = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z", "--points", "5", "--tag", "gpu")

    assert end("stats", *options, "--flow", "hello") == 0

    head, row = end.printed().out.splitlines()
    asked = "since=1767225600.0&until=1767312000.0&points=5&flow=hello&tag=gpu"
    assert server.requests == [("GET", f"/stats?{asked}")]
    quantiles = ["QUEUE_P50", "QUEUE_P95", "RUN_P50", "RUN_P95"]
    assert head.split() == ["FROM", "SUBMITTED", "COMPLETED", "FAILED", "CANCELLED", *quantiles]
    assert row.split()[-8:] == ["3", "1", "0", "0", "250ms", "-", "1m01s", "1m01s"]
