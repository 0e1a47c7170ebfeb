"""`PyocoNatsWorker` in a program: flows in threads, with a real gateway and a real nats-server."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyoco.core.context import Context
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.worker import PyocoNatsWorker
from support.flow_files import TWO_TASKS
from support.gateways import serving, submit, wait_for_status

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05, cancel_grace_period_sec=0.2)

PATIENCE_SEC = 10.0


class Flows:
    """The flows of these tests, controlled by the test."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.stopped = threading.Event()

    def resolve(self, name: str) -> Flow:
        flows: dict[str, Callable[..., object]] = {
            "hello": self._hello,
            "listens": self._cooperate,
            "deaf": self._ignore_cancel,
            "prints": self._print,
        }
        return Flow(name) >> TaskWrapper(Task(func=flows[name], name=name))

    def _hello(self, name: str = "world") -> str:
        return f"Hello, {name}!"

    def _print(self) -> None:
        print("by a task")  # noqa: T201 - its output is captured
        sys.stderr.write("badly")
        other = threading.Thread(target=print, args=("of another thread",))
        other.start()
        other.join()
        raise ValueError("no such file")

    def _cooperate(self, ctx: Context) -> str:
        self.begun.set()
        while not ctx.is_cancelled and not self.go_on.wait(0.01):
            continue
        self.stopped.set()
        return "done"

    def _ignore_cancel(self) -> str:
        self.begun.set()
        self.go_on.wait(PATIENCE_SEC)
        self.stopped.set()
        return "done"

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE_SEC)


@pytest.fixture
def flows() -> Flows:
    return Flows()


@asynccontextmanager
async def worker(config: NatsBackendConfig, flows: Flows, name: str = "worker") -> AsyncIterator[PyocoNatsWorker]:
    async with await PyocoNatsWorker.connect(config, flows.resolve, name) as connected:
        try:
            yield connected
        finally:
            flows.go_on.set()


@asynccontextmanager
async def at_work(one: PyocoNatsWorker) -> AsyncIterator[asyncio.Task[str | None]]:
    """Executes one job concurrently with the test."""
    async with asyncio.TaskGroup() as group:
        yield group.create_task(one.run_once(timeout=PATIENCE_SEC))


async def test_output_of_tasks_is_stored_and_still_printed(
    config: NatsBackendConfig, flows: Flows, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout, sys.stderr
    async with serving(config) as client, worker(config, flows) as one:
        run_id = await submit(client, "prints")
        await one.run_once(timeout=PATIENCE_SEC)
        await wait_for_status(client, run_id, "FAILED")
        page = (await client.get(f"/runs/{run_id}/logs")).json()

    lines = [(item["message"], item["task"], item["stream"], item["level"]) for item in page["items"]]
    assert lines[:2] == [("by a task", "prints", "stdout", "INFO"), ("badly", "prints", "stderr", "WARNING")]
    assert lines[-1] == ("ValueError: no such file", "prints", "pyoco", "ERROR")
    assert "of another thread" not in {message for message, *_ in lines}
    output = capsys.readouterr()
    assert (output.out, output.err) == ("by a task\nof another thread\n", "badly")
    assert (sys.stdout, sys.stderr) == before


async def test_a_run_is_executed_and_its_id_returned(config: NatsBackendConfig, flows: Flows) -> None:
    async with serving(config) as client, worker(config, flows) as one:
        run_id = await submit(client, params={"name": "library"})

        assert await one.run_once(timeout=PATIENCE_SEC) == run_id

        run = await wait_for_status(client, run_id, "COMPLETED")
    assert run["tasks"] == {"hello": "SUCCEEDED"}
    assert run["task_records"]["hello"]["output"] == "Hello, library!"
    assert run["worker_id"] == "worker"


async def test_every_event_of_a_run_carries_the_id_of_the_request_that_submitted_it(
    config: NatsBackendConfig, flows: Flows
) -> None:
    async with serving(config) as client, worker(config, flows) as one, open_stores(config, name="test") as stores:
        submitted = await client.post("/runs", json={"flow_name": "hello"}, headers={"X-Correlation-Id": "order-66"})
        run_id = RunId(submitted.json()["run_id"])
        await one.run_once(timeout=PATIENCE_SEC)
        commits = [stored.commit for stored in await stores.events.read(run_id)]

    assert {commit.actor.kind for commit in commits} == {"user", "worker"}
    assert {commit.correlation_id for commit in commits} == {"order-66"}


async def test_without_a_job_the_result_is_none_after_the_timeout(config: NatsBackendConfig, flows: Flows) -> None:
    async with worker(config, flows) as one:
        assert await one.run_once(timeout=0.05) is None


async def test_a_job_submitted_between_two_calls_is_not_lost(config: NatsBackendConfig, flows: Flows) -> None:
    async with serving(config) as client, worker(config, flows) as one:
        assert await one.run_once(timeout=0.05) is None
        run_id = await submit(client)
        await wait_for_status(client, run_id, "PENDING")

        assert await one.run_once(timeout=PATIENCE_SEC) == run_id


async def test_a_cooperative_flow_stops_when_its_run_is_cancelled(config: NatsBackendConfig, flows: Flows) -> None:
    async with serving(config) as client, worker(config, flows) as one, at_work(one):
        run_id = await submit(client, "listens")
        await flows.has_begun()
        await client.post(f"/runs/{run_id}/cancel")
        run = await wait_for_status(client, run_id, "CANCELLED")

    assert flows.stopped.is_set()
    assert run["cancel"]["how"] == "cooperative"
    assert run["cancel"]["requested_at"] <= run["cancel"]["delivered_at"] <= run["cancel"]["stopped_at"]


async def test_a_flow_that_ignores_its_cancel_is_abandoned_after_the_grace_period(
    config: NatsBackendConfig, flows: Flows
) -> None:
    async with serving(config) as client, worker(config, flows) as one:
        async with at_work(one):
            run_id = await submit(client, "deaf")
            await flows.has_begun()
            await client.post(f"/runs/{run_id}/cancel")
            run = await wait_for_status(client, run_id, "CANCELLED")
        assert not flows.stopped.is_set()

        after = await submit(client)
        assert await one.run_once(timeout=PATIENCE_SEC) == after

    assert run["cancel"]["how"] == "abandoned"


async def test_a_flow_that_exceeds_its_timeout_is_cancelled_then_abandoned(
    config: NatsBackendConfig, flows: Flows
) -> None:
    async with serving(config) as client, worker(config, flows) as one:
        async with at_work(one):
            cooperative = await wait_for_status(client, await submit(client, "listens", timeout_sec=0.05), "FAILED")
        async with at_work(one):
            uncooperative = await wait_for_status(client, await submit(client, "deaf", timeout_sec=0.05), "FAILED")

    assert [(run["error_code"], run["timeout"]["how"]) for run in (cooperative, uncooperative)] == [
        ("ERR-PYOCO-0042", "cooperative"),
        ("ERR-PYOCO-0042", "abandoned"),
    ]


async def test_a_cancelled_call_stops_its_flow_and_releases_the_job(config: NatsBackendConfig, flows: Flows) -> None:
    async with serving(config) as client, worker(config, flows, "first") as one:
        run_id = await submit(client, "listens")
        call = asyncio.create_task(one.run_once(timeout=PATIENCE_SEC))
        await flows.has_begun()
        call.cancel()
        await asyncio.wait([call])
        assert await asyncio.to_thread(flows.stopped.wait, PATIENCE_SEC)
        flows.go_on.set()
        async with worker(config, flows, "second") as other:
            assert await other.run_once(timeout=PATIENCE_SEC) == run_id
            run = await wait_for_status(client, run_id, "COMPLETED")

    assert (run["attempt"], run["worker_id"]) == (2, "second")


async def test_received_jobs_that_have_not_started_are_returned_on_close(
    config: NatsBackendConfig, flows: Flows
) -> None:
    async with serving(config) as client, worker(config, flows, "second") as other:
        async with worker(config, flows, "first") as one:
            assert await one.run_once(timeout=0.01) is None
            run_id = await submit(client)
            assert await other.run_once(timeout=0.1) is None  # the first worker keeps it for its next call

        assert await other.run_once(timeout=PATIENCE_SEC) == run_id


async def test_a_worker_of_several_tags_executes_runs_of_each(config: NatsBackendConfig, flows: Flows) -> None:
    async with (
        serving(config) as client,
        await PyocoNatsWorker.connect(config, flows.resolve, tags=["cpu", "gpu"]) as one,
    ):
        run_ids = {await submit(client, tag=tag) for tag in ("cpu", "gpu")}
        worked = {await one.run_once(timeout=PATIENCE_SEC) for _ in run_ids}

    assert worked == run_ids


@pytest.mark.parametrize(("tags", "worker_id"), [(["a.b"], "w"), (["*"], "w"), (["ok"], "no spaces"), (["ok"], "")])
async def test_a_name_that_cannot_be_a_subject_or_a_key_is_a_value_error(tags: list[str], worker_id: str) -> None:
    with pytest.raises(ValueError, match=r"tag|worker id"):
        await PyocoNatsWorker.connect(NatsBackendConfig(), lambda name: Flow(name), worker_id, tags)


async def test_a_worker_without_a_resolver_executes_only_flow_files(
    config: NatsBackendConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "library_tasks.py").write_text("def load(day):\n    return day\n\ndef save(load):\n    return load * 2")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = TWO_TASKS.replace("tasks:", "library_tasks:").replace("library_tasks:\n", "tasks:\n")
    async with serving(config) as client, await PyocoNatsWorker.connect(config) as one:
        response = await client.post("/runs/yaml", files={"workflow": text.encode()}, data={"flow_name": "file"})
        by_name = await submit(client, "file")
        for _ in range(2):
            await one.run_once(timeout=PATIENCE_SEC)

        run = await wait_for_status(client, response.json()["run_id"], "COMPLETED", "FAILED")
        unknown = await wait_for_status(client, by_name, "COMPLETED", "FAILED")
    assert run["status"] == "COMPLETED", run["error"]
    assert run["task_records"]["save"]["output"] == "mondaymonday"
    assert (unknown["status"], "no flow named 'file'" in unknown["error"]) == ("FAILED", True)


async def test_a_run_longer_than_the_ack_wait_is_executed_once(config: NatsBackendConfig, flows: Flows) -> None:
    quick = replace(config, consumer_ack_wait_sec=0.4, ack_progress_interval_sec=0.1)
    async with (
        serving(quick) as client,
        worker(quick, flows, "first") as one,
        worker(quick, flows, "second") as other,
        at_work(one),
    ):
        run_id = await submit(client, "listens")
        await flows.has_begun()
        assert await other.run_once(timeout=1.0) is None
        flows.go_on.set()
        run = await wait_for_status(client, run_id, "COMPLETED")

    assert (run["attempt"], run["worker_id"]) == (1, "first")
