"""`pyoco-client job …` with a real gateway on a real broker: what is typed is done, and shown as it is."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.cli import output
from pyoco_server.cli.client.program import app
from pyoco_server.cli.correction import PROGRAM
from pyoco_server.domain.ids import RunId
from support.broker import Broker
from support.gateways import gateway_settings
from support.hand import Hand
from support.samples import new_run_id
from support.written import Writer

AT = "2023-11-14T22:13:20.250Z"


class Said(NamedTuple):
    code: int | str | None
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Desk:
    """A terminal at which `pyoco-client job` is typed, and the hand of a worker beside it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broker: Broker, folder: Path
    ) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self._config = gateway_settings(broker.url, folder)

    def __call__(self, *arguments: str) -> Said:
        self._monkeypatch.setattr("sys.argv", [PROGRAM, "job", *arguments])
        with pytest.raises(SystemExit) as ended:
            output.run(app, PROGRAM)
        said = self._capsys.readouterr()
        return Said(ended.value.code, said.out, said.err)

    def submitted(self, *words: str) -> str:
        job_id: str = self("submit", *words).json()["id"]
        return job_id

    def work(self, job_id: str, *texts: str, error: str | None = None, ends: bool = True) -> None:
        """The job runs, writes this, and ends, if it does."""
        asyncio.run(self._work(job_id, texts, error, ends))

    async def _work(self, job_id: str, texts: tuple[str, ...], error: str | None, ends: bool) -> None:
        async with open_stores(self._config, name="worker of the test") as stores:
            hand = Hand(stores)
            await hand.start(job_id)
            if texts:
                await Writer(stores.run_logs, RunId(job_id)).write(*texts)
            if ends:
                await (hand.complete(job_id) if error is None else hand.fail(job_id, error))


@pytest.fixture
def desk(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shared_broker: Broker,
    shared_address: str,
    tmp_path: Path,
) -> Desk:
    for name in [name for name in os.environ if name.startswith(("PYOCO_", "LC_", "LANG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYOCO_SERVER", shared_address)
    return Desk(monkeypatch, capsys, shared_broker, tmp_path)


def test_a_job_is_submitted_and_shown(desk: Desk) -> None:
    words = ["--params", '{"input": "data.csv"}', "--param", "rows=3", "--flow", "report", "--label", "shown"]

    job = desk("submit", *words, "--timeout-sec", "60").json()

    assert (job["parameters"], job["flow"], job["timeoutSec"]) == ({"input": "data.csv", "rows": 3}, "report", 60.0)
    assert desk("get", job["id"], "-o", "json").json() == job
    told = desk("get", job["id"]).out
    assert "status:     pending\n" in told
    assert 'parameters: {"input": "data.csv", "rows": 3}\n' in told


def test_jobs_are_found_by_all_of_their_labels(desk: Desk) -> None:
    first = desk.submitted("--label", "found", "--label", "a,b")
    second = desk.submitted("--label", "found")

    assert [job["id"] for job in desk("ls", "--label", "found", "-o", "json").json()["jobs"]] == [second, first]
    assert [job["id"] for job in desk("ls", "--label", "found", "--limit", "1", "-o", "json").json()["jobs"]] == [
        second
    ]
    both = desk("ls", "--label", "found", "--label", "a,b", "--status", "pending")
    head, row = both.out.splitlines()
    assert head.startswith("JOB_ID")
    assert row.startswith(f"{first}  pending")
    assert desk("tags", "found", "-o", "json").json() == {"tags": [{"tag": "found", "count": 2}]}


def test_labels_of_a_finished_job_are_changed(desk: Desk) -> None:
    job_id = desk.submitted("--label", "kept")
    desk.work(job_id)

    assert desk("tag", job_id, "add", "seen/by ann", "日本語").out.splitlines() == ["kept", "seen/by ann", "日本語"]
    assert desk("tag", job_id, "rm", "seen/by ann", "never had").out.splitlines() == ["kept", "日本語"]
    assert desk("tag", job_id, "ls", "-o", "json").json() == ["kept", "日本語"]


def test_a_log_is_shown_by_lines_and_goes_on_by_its_token(desk: Desk) -> None:
    job_id = desk.submitted()
    desk.work(job_id, "begun", "steering\x1b[2J", ends=False)

    shown = desk("logs", job_id)
    token = shown.err.split("--since ")[1].strip()
    more = desk("logs", job_id, "--since", token)

    assert shown.out.splitlines() == [f"{AT} load begun", f"{AT} load steering\ufffd[2J"]
    assert (more.code, more.out) == (0, "")
    assert [json.loads(line)["n"] for line in desk("logs", job_id, "--tail", "1", "-o", "json").out.splitlines()] == [2]
    assert desk("logs", job_id, "--level", "error").out == ""
    assert desk("logs", job_id, "--since", "nonsense").code == 1


def test_a_log_is_downloaded_and_gone_on_with(desk: Desk, tmp_path: Path) -> None:
    job_id, path = desk.submitted(), tmp_path / "job.log"
    desk.work(job_id, "begun", "漢字")
    path.write_bytes(b"begun\n")

    received = desk("logs", job_id, "--text", str(path)).json()

    assert path.read_text("utf-8") == "begun\n漢字\n"
    assert received == {"bytes_written": 7, "size_bytes": 13, "complete": True, "path": str(path)}
    assert desk("logs", job_id, "--text", str(path)).json()["bytes_written"] == 0
    path.write_text("something else, which is longer")
    refused = desk("logs", job_id, "--text", str(path))
    assert refused.code == 1
    assert "it is not the beginning of this log" in refused.err


@pytest.mark.parametrize(("error", "code", "end"), [(None, 0, "completed"), ("no paper", 1, "failed")])
def test_a_job_that_is_followed_ends_the_command_as_it_ended_itself(
    desk: Desk, error: str | None, code: int, end: str
) -> None:
    job_id = desk.submitted()
    desk.work(job_id, "begun", "done", error=error)

    followed = desk("follow", job_id)
    *lines, last = followed.out.splitlines()

    assert followed.code == code
    assert lines == [f"{AT} load begun", f"{AT} load done"]
    assert last.startswith(f"job {job_id} {end} in ")
    assert last.endswith(": no paper") == (error is not None)
    assert desk("follow", job_id, "--tail", "1").out.splitlines()[0] == f"{AT} load done"


def test_a_job_is_removed_and_one_that_never_was_too(desk: Desk) -> None:
    job_id = desk.submitted("--label", "removed")

    assert desk("rm", job_id, str(new_run_id())).code == 0
    assert "status:     canceled\n" in desk("get", job_id).out
    assert desk("rm", job_id).code == 0
    assert desk("ls", "--label", "removed", "-o", "json").json() == {"jobs": []}


def test_what_is_not_there_is_told_with_a_hint_in_the_language_of_the_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = str(new_run_id())
    english = desk("get", nobody)
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    japanese = desk("get", nobody)

    assert (english.code, japanese.code) == (1, 1)
    assert "[ERR-PYOCO-0005]\nhint: " in english.err
    assert english.err.isascii()
    assert "[ERR-PYOCO-0005]\nhint: " in japanese.err
    assert not japanese.err.isascii()
