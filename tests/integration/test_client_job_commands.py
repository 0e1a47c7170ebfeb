"""`pyoco-client job …`: the requests and the output of its commands, with correct and faulty servers."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli.client.following import job_continues
from support.programs import client
from support.shells import RunClient
from support.stand_in import Events, NoContent, Refusal, StandIn
from support.terminal import Terminal

ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
AT = "2026-01-01T00:00:{:06.3f}Z"
HOSTILE = "\x1b]0;owned\x07[red]日本語[/red]"
JOB: dict[str, Any] = {
    "id": ID,
    "status": "pending",
    "flow": "main",
    "tag": "default",
    "createdAt": AT.format(0),
    "startedAt": None,
    "completedAt": None,
    "tags": ["urgent", HOSTILE],
    "attempt": 0,
}
ENDED = JOB | {"status": "completed", "startedAt": AT.format(1), "completedAt": AT.format(3.5), "attempt": 1}
FAILED = ENDED | {"status": "failed", "error": "load: no such\nfile"}


def entry(number: int, message: str, level: str = "INFO", task: str | None = "load") -> dict[str, Any]:
    line = {"timestamp": AT.format(number), "message": message, "n": number, "task": task, "level": level}
    return line | {"stream": "stdout", "attempt": 1}


ENTRIES = [entry(1, "begun"), entry(2, HOSTILE, "ERROR"), entry(3, "not of a task", "DEBUG", None)]
SHOWN = [
    f"{AT.format(1)} load begun",
    f"{AT.format(2)} load \ufffd]0;owned\ufffd[red]日本語[/red]",
    f"{AT.format(3)} - not of a task",
]


def stream(status: str | None = "completed", entries: list[dict[str, Any]] = ENTRIES) -> Events:
    lines = tuple(("logEntry", one) for one in entries)
    return Events((*lines, ("end", {"status": status})) if status else lines, stays_open=status is None)


pytestmark = pytest.mark.usefixtures("clean_client")


@pytest.fixture
def responses() -> dict[str, Any]:
    return {
        "/jobs": JOB,
        f"/jobs/{ID}": ENDED,
        f"/jobs/{ID}/logs": {"entries": ENTRIES, "nextToken": "t-4", "complete": True},
        f"/jobs/{ID}/logs/stream": stream(),
        f"/jobs/{ID}/tags": ["urgent", HOSTILE],
        f"/jobs/{ID}/tags/a%2Fb": NoContent(),
        "/tags": {"tags": [{"tag": HOSTILE, "count": 2}, {"tag": "urgent", "count": 12}]},
    }


def variables(server: StandIn) -> dict[str, str]:
    return {"PYOCO_SERVER": server.address}


def on_terminal(server: StandIn, folder: Path, *arguments: str) -> Terminal:
    return Terminal("-m", "pyoco_server.cli.client", "job", *arguments, cwd=folder, env=variables(server))


def test_submit_sends_its_options_and_prints_the_job(end: RunClient, server: StandIn) -> None:
    words = ["--flow", "report", "--tag", "gpu", "--label", "urgent", "--label", "a,b", "--timeout-sec", "60"]

    code = end("job", "submit", "--params", '{"a": 1}', "--param", "b=two", *words)

    assert code == 0
    assert server.requests == [("POST", "/jobs")]
    assert json.loads(server.bodies[0]) == {
        "parameters": {"a": 1, "b": "two"},
        "tags": ["urgent", "a,b"],
        "flow": "report",
        "tag": "gpu",
        "timeout_sec": 60.0,
        "strict": True,
    }
    assert json.loads(end.printed().out) == JOB


def test_submit_with_status_output_prints_one_line(end: RunClient, server: StandIn) -> None:
    assert end("job", "submit", "-o", "status") == 0
    assert end.printed().out == f"{ID} PENDING\n"


def test_follow_prints_each_line_and_the_duration(end: RunClient, server: StandIn) -> None:
    code = end("job", "submit", "--follow")

    printed = end.printed()
    assert code == 0
    assert printed.out.splitlines() == [*SHOWN, f"job {ID} COMPLETED in 2.5s"]
    assert printed.err == f"submitted: {ID}\n"


@pytest.mark.parametrize("command", [["submit", "--follow"], ["follow", ID]])
def test_follow_fails_when_the_job_fails(end: RunClient, server: StandIn, command: list[str]) -> None:
    server.responses |= {f"/jobs/{ID}/logs/stream": stream("failed"), f"/jobs/{ID}": FAILED}

    assert end("job", *command) == 1
    assert end.printed().out.splitlines()[-1] == f"job {ID} FAILED in 2.5s: load: no such file"


def test_follow_as_json_prints_only_json_lines(end: RunClient, server: StandIn) -> None:
    code = end("job", "follow", ID, "--tail", "5", "--task", "load", "--level", "warning", "-o", "json")

    printed = end.printed()
    assert code == 0
    assert [json.loads(line) for line in printed.out.splitlines()] == ENTRIES
    assert printed.err == f"job {ID} COMPLETED in 2.5s\n"
    assert server.requests[0] == ("GET", f"/jobs/{ID}/logs/stream?tail=5&task=load&level=WARNING")


def test_on_a_terminal_levels_have_colours_and_output_is_escaped(server: StandIn, tmp_path: Path) -> None:
    with on_terminal(server, tmp_path, "follow", ID) as terminal:
        code, drawn = terminal.end()

    assert code == 0
    assert re.search(r"\x1b\[31m\ufffd\]0;owned\ufffd\[red\]日本語\[/red\]\x1b\[0m", drawn)
    assert re.search(r"\x1b\[36mload \x1b\[0m", drawn)
    assert "\x1b]0;" not in drawn
    assert drawn.splitlines()[-1] == f"job {ID} COMPLETED in 2.5s"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_ctrl_c_the_job_continues_and_the_message_says_how_to_follow_it(
    server: StandIn, tmp_path: Path, number: signal.Signals
) -> None:
    server.responses[f"/jobs/{ID}/logs/stream"] = stream(None)

    with client("job", "follow", ID, cwd=tmp_path, env=variables(server)) as program:
        program.out.wait_for("not of a task")
        program.signal(number)
        code = program.exit_code()

    assert code == 130
    assert program.err.all() == [
        f"no longer following; the job continues. To continue here: pyoco-client job follow {ID} --after 3",
        f"To stop it: pyoco-client job rm {ID}",
    ]
    assert ("DELETE", f"/jobs/{ID}") not in server.requests


def test_ctrl_c_without_output_suggests_explain(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), job_continues(ID, lambda: None):
        raise KeyboardInterrupt

    assert capsys.readouterr().err.splitlines()[-1] == f"There was no output; to see why: pyoco-client explain {ID}"


def test_follow_continues_at_the_printed_position(end: RunClient, server: StandIn) -> None:
    assert end("job", "follow", ID, "--after", "3") == 0
    assert server.headers[0]["Last-Event-ID"] == "3"
    assert end("job", "follow", ID, "--after", "３") == 1
    assert "is not a place" in end.printed().err


def test_a_list_is_a_table_newest_first(end: RunClient, server: StandIn) -> None:
    server.responses["/jobs"] = {"jobs": [JOB, FAILED]}

    code = end("job", "ls", "--label", "urgent", "--label", "b", "--status", "FAILED", "--limit", "20")

    head, first, second = end.printed().out.splitlines()
    assert code == 0
    assert head.split() == ["JOB_ID", "STATUS", "FLOW", "TAG", "CREATED", "TOOK", "LABELS", "ERROR"]
    assert first.startswith(f"{ID}  PENDING")
    assert "2.5s" in second
    assert "\x1b" not in first
    assert server.requests == [("GET", "/jobs?tag=urgent&tag=b&status=failed&limit=20")]


def test_a_list_as_json_is_the_response_of_the_server(end: RunClient, server: StandIn) -> None:
    server.responses["/jobs"] = {"jobs": [JOB, FAILED], "nextToken": "t"}

    assert end("job", "ls", "--limit", "2", "-o", "json") == 0
    printed = end.printed().out
    assert json.loads(printed) == {"jobs": [JOB, FAILED]}
    assert "\x1b" not in printed
    # The limit is reached: the next page is not requested.
    assert len(server.requests) == 1


def test_on_a_terminal_a_status_has_its_colour(server: StandIn, tmp_path: Path) -> None:
    server.responses["/jobs"] = {"jobs": [FAILED]}

    with on_terminal(server, tmp_path, "ls") as terminal:
        _, drawn = terminal.end()

    assert re.search(r"\x1b\[1;31mFAILED", drawn)
    assert "\x1b]0;" not in drawn


def test_a_job_is_shown_with_its_known_fields(end: RunClient, server: StandIn) -> None:
    server.responses[f"/jobs/{ID}"] = FAILED | {"parameters": {"input": "data.csv"}, "timeoutSec": 60.0}

    assert end("job", "get", ID) == 0
    facts = dict(line.split(": ", 1) for line in end.printed().out.replace(":  ", ": ").splitlines())
    assert {name: value.strip() for name, value in facts.items()}.items() >= {
        "status": "FAILED",
        "parameters": '{"input": "data.csv"}',
        "took": "2.5s",
        "limit": "1m00s",
        "error": "load: no such file",
    }.items()


def test_a_log_is_printed_in_pages_and_the_last_has_the_next_token(end: RunClient, server: StandIn) -> None:
    server.responses[f"/jobs/{ID}/logs"] = {"entries": ENTRIES, "nextToken": "t-4", "complete": False}

    code = end("job", "logs", ID, "--since", "t-1", "--level", "ERROR")

    printed = end.printed()
    assert code == 0
    assert printed.out.splitlines() == SHOWN * 2
    assert printed.err == f"the job continues; to continue here: pyoco-client job logs {ID} --since t-4\n"
    path = f"/jobs/{ID}/logs?sinceToken="
    assert [requests for _, requests in server.requests] == [
        f"{path}t-1&limit=10000&level=ERROR",
        f"{path}t-4&limit=10000&level=ERROR",
    ]


def test_a_tail_is_requested_once(end: RunClient, server: StandIn) -> None:
    server.responses[f"/jobs/{ID}/logs"] = {"entries": ENTRIES, "nextToken": "t-4", "complete": False}

    assert end("job", "logs", ID, "--tail", "3", "-o", "json") == 0
    assert [json.loads(line) for line in end.printed().out.splitlines()] == ENTRIES
    assert server.requests == [("GET", f"/jobs/{ID}/logs?limit=10000&tail=3")]


def test_a_log_as_text_is_written_to_a_file(end: RunClient, server: StandIn, tmp_path: Path) -> None:
    server.responses[f"/jobs/{ID}/logs"] = "begun\n\x1b[2Jdone\n"
    path = tmp_path / "job.log"

    code = end("job", "logs", ID, "--text", str(path))

    assert code == 0
    assert path.read_bytes() == b"begun\n\x1b[2Jdone\n"
    assert json.loads(end.printed().out) == {
        "bytes_written": 15,
        "size_bytes": 15,
        "complete": None,
        "path": str(path),
    }


def test_a_log_as_text_is_unchanged_for_programs_and_escaped_on_a_terminal(server: StandIn, tmp_path: Path) -> None:
    server.responses[f"/jobs/{ID}/logs"] = f"begun\n{HOSTILE}\n"

    with client("job", "logs", ID, "--text", "-", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()
    with on_terminal(server, tmp_path, "logs", ID, "--text", "-") as terminal:
        _, drawn = terminal.end()

    assert (code, program.out.all()) == (0, ["begun", HOSTILE])
    assert drawn.splitlines() == ["begun", "\ufffd]0;owned\ufffd[red]日本語[/red]"]


def test_a_log_file_that_cannot_be_written_is_reported_with_an_example(
    end: RunClient, server: StandIn, tmp_path: Path
) -> None:
    assert end("job", "logs", ID, "--text", str(tmp_path)) == 1
    printed = end.printed().err
    assert "Is a directory" in printed
    assert f"example: pyoco-client job logs {ID} --text {ID}.log" in printed


def test_labels_are_added_removed_and_listed(end: RunClient, server: StandIn) -> None:
    assert end("job", "tag", ID, "ls") == 0
    assert end.printed().out.splitlines() == ["urgent", "\ufffd]0;owned\ufffd[red]日本語[/red]"]
    assert end("job", "tag", ID, "add", "urgent", "b", "-o", "json") == 0
    assert json.loads(end.printed().out) == ["urgent", HOSTILE]
    assert end("job", "tag", ID, "rm", "a/b") == 0

    path = f"/jobs/{ID}/tags"
    assert server.requests[1:4] == [("POST", path), ("POST", path), ("GET", path)]
    assert [json.loads(body) for body in server.bodies[1:3]] == [{"tag": "urgent"}, {"tag": "b"}]
    assert server.requests[4:] == [("DELETE", f"{path}/a%2Fb"), ("GET", path)]


def test_labels_are_counted(end: RunClient, server: StandIn) -> None:
    assert end("job", "tags", "urg", "--limit", "5") == 0
    assert [line.split()[-1] for line in end.printed().out.splitlines()] == ["JOBS", "2", "12"]
    assert server.requests == [("GET", "/tags?prefix=urg&limit=5")]


def test_jobs_are_removed_one_after_the_other(end: RunClient, server: StandIn) -> None:
    other = ID.replace("0190", "0191")
    server.responses |= {f"/jobs/{ID}": NoContent(), f"/jobs/{other}": NoContent()}

    assert end("job", "rm", ID, other) == 0
    printed = end.printed()
    assert (printed.out, printed.err.splitlines()) == ("", [f"removed: {ID}", f"removed: {other}"])
    assert server.requests == [("DELETE", f"/jobs/{ID}"), ("DELETE", f"/jobs/{other}")]


@pytest.mark.parametrize("command", [["get", ID], ["follow", ID], ["logs", ID], ["logs", ID, "--text", "-"]])
def test_an_error_of_the_server_is_printed_with_its_hint(end: RunClient, server: StandIn, command: list[str]) -> None:
    refusal = Refusal(404, "ERR-PYOCO-0005", f"job {ID} is not there", hint="Check the id.")
    server.responses |= dict.fromkeys([f"/jobs/{ID}", f"/jobs/{ID}/logs", f"/jobs/{ID}/logs/stream"], refusal)

    assert end("job", *command) == 1
    printed = end.printed()
    assert (printed.out, printed.err.splitlines()) == (
        "",
        [f"error: job {ID} is not there [ERR-PYOCO-0005]", "hint: Check the id."],
    )
