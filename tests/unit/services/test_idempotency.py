"""A request with an idempotency key is applied once, for repeated, concurrent and crashed attempts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from pyoco_server.domain.idempotency.record import ENDED, Answer
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, IdempotencyConflict, RequestTooLarge, Unanswered
from pyoco_server.services import idempotency
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.services.idempotency import LEASE_SEC, Answered, IdempotentAttempt
from support.attempts import once
from support.clocks import ManualClock
from support.keyed import RECORD_KEY, Submits, crash, keyed_request, record, send
from support.world import HELLO, World

OK = Answer(status=200, body=b"done")


async def done(turn: IdempotentAttempt) -> Answer:
    return structs.replace(OK, body=turn.resource_id.encode())


class Gate:
    """Work that signals its start and ends on request."""

    def __init__(self, answer: Answer = OK) -> None:
        self.begun = asyncio.Event()
        self.proceed = asyncio.Event()
        self.answer = answer

    async def __call__(self, turn: IdempotentAttempt) -> Answer:
        self.begun.set()
        await self.proceed.wait()
        return self.answer


async def never(turn: IdempotentAttempt) -> Answer:
    raise AssertionError("the work is repeated")


async def assert_one_run(world: World, answered: Answered) -> RunId:
    """There are one run and one job, and the response names the run."""
    run_id = RunId(answered.answer.body.decode())
    (seen,) = [batch async for batch in world.feed.commits(after=0)]
    assert [one.run_id for one in seen] == [run_id]
    assert await world.status(run_id) == "PENDING"
    assert len(await world.truth.queue.stored("default")) == 1
    return run_id


async def test_a_repeated_request_gets_the_stored_response(world: World) -> None:
    first = await send(world)

    second = await send(world, never)

    assert (first.replayed, second.replayed) == (False, True)
    assert second.answer.body == first.answer.body
    await assert_one_run(world, second)


async def test_the_record_contains_the_request_and_its_events(world: World) -> None:
    answered = await send(world)

    kept = (await record(world)).record
    run_id = await assert_one_run(world, answered)
    (stored,) = await world.truth.events.read(run_id)
    assert (kept.idempotency_key, kept.endpoint, kept.request_hash) == ("k-1", "POST /runs", "sha256:1")
    assert (kept.resource_id, kept.commit_id) == (run_id, stored.commit.commit_id)
    assert kept.answer is not None
    assert kept.answer.event_ids == (f"{kept.commit_id}.0",)
    assert stored.commit.idempotency_key == "k-1"


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "in work"])
async def test_the_same_key_with_another_body_is_a_conflict_at_once(world: World, is_finished: bool) -> None:
    gate = Gate()
    first = asyncio.create_task(send(world, gate))
    await gate.begun.wait()
    if is_finished:
        gate.proceed.set()
        await first

    with pytest.raises(IdempotencyConflict) as refused:
        await send(world, never, keyed_request("sha256:2"))

    assert (refused.value.err_id, refused.value.code) == ("ERR-PYOCO-0047", "IDEMPOTENCY_CONFLICT")
    gate.proceed.set()
    assert (await first).answer == OK


async def test_concurrent_requests_are_applied_once_and_share_the_response(world: World) -> None:
    submits = Submits(world.stores)

    answers = await asyncio.gather(*(send(world, submits) for _ in range(8)))

    assert len(submits.turns) == 1
    assert [answered.replayed for answered in answers].count(False) == 1
    assert len({answered.answer.body for answered in answers}) == 1
    await assert_one_run(world, answers[0])


async def test_a_second_request_waits_for_the_first(world: World) -> None:
    gate = Gate()
    first = asyncio.create_task(send(world, gate))
    await gate.begun.wait()

    second = asyncio.create_task(send(world, never))
    for _ in range(3):
        await world.faults.tried("idempotency.get")
    gate.proceed.set()

    assert (await second).answer == (await first).answer
    assert (await second).replayed


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("before", "events.append"),
        ("after", "events.append"),
        ("before", "snapshots.advance"),
        ("after", "snapshots.advance"),
        ("before", "queue.publish"),
        ("after", "queue.publish"),
        ("before", "idempotency.replace"),
        ("after", "idempotency.replace"),
    ],
)
async def test_after_a_crash_at_any_call_the_next_request_resumes_to_one_run_and_one_response(
    world: World, where: str, call: str
) -> None:
    (world.faults.before if where == "before" else world.faults.after)(call, crash(world))
    submits = Submits(world.stores)
    try:
        await send(world, submits)
    except BrokerUnavailable:
        assert call != "idempotency.replace"
    begun = (await record(world)).record
    world.faults.is_offline = False
    world.clock.pass_time(LEASE_SEC)

    answers = [await send(world, submits) for _ in range(3)]

    run_id = await assert_one_run(world, answers[0])
    assert run_id == begun.resource_id == submits.turns[0].resource_id
    assert len({answered.answer for answered in answers}) == 1
    kept = (await record(world)).record.answer
    assert kept is not None
    assert kept.event_ids == (f"{begun.commit_id}.0",)
    assert {turn.context.commit_id for turn in submits.turns} == {begun.commit_id}
    assert [turn.context.resumed for turn in submits.turns] == [False, True][: len(submits.turns)]


async def test_a_crash_before_the_record_leaves_nothing(world: World) -> None:
    world.faults.before("idempotency.create", crash(world))
    with pytest.raises(BrokerUnavailable):
        await send(world)
    world.faults.is_offline = False

    await assert_one_run(world, await send(world))


async def test_a_resumed_submit_does_not_queue_a_run_that_a_worker_has_started(world: World) -> None:
    world.faults.before("idempotency.replace", crash(world))
    first = await send(world)
    world.faults.is_offline = False
    world.clock.pass_time(LEASE_SEC)
    run_id = RunId(first.answer.body.decode())
    await world.start(run_id)
    world.faults.calls.clear()

    second = await send(world)

    assert second.answer.body == first.answer.body
    assert "queue.publish" not in world.faults.calls
    assert await world.status(run_id) == "RUNNING"


async def test_with_a_key_an_incomplete_submit_is_not_undone(world: World) -> None:
    world.faults.fail("queue.publish")
    with pytest.raises(BrokerUnavailable):
        await send(world)

    second = await send(world)

    run_id = await assert_one_run(world, second)
    assert [stored.commit.command for stored in await world.truth.events.read(run_id)] == ["CreateExecution"]


async def test_with_a_key_a_first_event_with_a_lost_response_is_no_orphan(world: World) -> None:
    world.faults.lose_answer("events.append")
    with pytest.raises(Unanswered):
        await send(world)

    await assert_one_run(world, await send(world))


# --- leases -----------------------------------------------------------------------------------------------------------


async def test_an_abandoned_lease_expires_by_the_clock_of_the_waiting_request(world: World) -> None:
    """The clock of the crashed holder is a million seconds ahead."""
    world.faults.before("events.append", crash(world))
    ahead = replace(world.stores, clock=ManualClock(now=2_000_000.0))
    with pytest.raises(BrokerUnavailable):
        await once(ahead, keyed_request(), world.stores.ids.run_id, Submits(world.stores))
    world.faults.is_offline = False

    waiting = asyncio.create_task(send(world))
    for _ in range(2):
        await world.faults.tried("idempotency.get")
        assert not waiting.done()
    world.clock.pass_time(LEASE_SEC)

    await assert_one_run(world, await waiting)


async def test_a_renewed_lease_restarts_the_wait(world: World) -> None:
    holder = Gate()
    first = asyncio.create_task(send(world, holder))
    await holder.begun.wait()
    waiting = asyncio.create_task(send(world, never))
    await world.faults.tried("idempotency.get")

    for _ in range(3):
        world.clock.pass_time(LEASE_SEC - 1)
        stored = await record(world)
        renewed = structs.replace(stored.record, lease_until=world.now() + LEASE_SEC)
        assert await world.truth.idempotency.replace(RECORD_KEY, renewed, revision=stored.revision)
        for _ in range(2):
            await world.faults.tried("idempotency.get")
    holder.proceed.set()

    assert (await waiting).answer == (await first).answer == OK


async def test_the_lease_is_renewed_only_while_the_work_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "RENEW_EVERY_SEC", 0.0)
    world.faults.fail("idempotency.replace")  # the next renewal compensates a failed one

    async def long_work(turn: IdempotentAttempt) -> Answer:
        world.clock.pass_time(60.0)
        await world.faults.done("idempotency.replace", 2)
        assert (await record(world)).record.lease_until == world.now() + LEASE_SEC
        return OK

    assert (await send(world, long_work)).answer == OK
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (await record(world)).record.answer == OK


async def test_work_that_is_cancelled_leaves_no_task_and_no_lease(world: World) -> None:
    gate = Gate()
    asking = asyncio.create_task(send(world, gate))
    await gate.begun.wait()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (await record(world)).record.lease_until == ENDED


async def test_two_concurrent_attempts_return_the_first_stored_response(world: World) -> None:
    slow = Gate(Answer(status=200, body=b"the slow one's"))
    first = asyncio.create_task(send(world, slow))
    await slow.begun.wait()
    world.clock.pass_time(LEASE_SEC)

    second = await send(world, done)
    slow.proceed.set()

    assert (await first).answer == second.answer
    assert (await first).replayed


async def test_the_overtaken_attempt_may_be_the_first_to_store_its_response(world: World) -> None:
    first, second = Gate(Answer(status=200, body=b"first")), Gate(Answer(status=200, body=b"second"))
    one = asyncio.create_task(send(world, first))
    await first.begun.wait()
    world.clock.pass_time(LEASE_SEC)
    other = asyncio.create_task(send(world, second))
    await second.begun.wait()

    first.proceed.set()
    await one
    second.proceed.set()

    assert (await one).answer.body == (await other).answer.body == b"first"


async def test_two_concurrent_submits_create_one_run(world: World) -> None:
    """The first attempt pauses between its record and the log and is overtaken."""

    async def overtake() -> None:
        world.clock.pass_time(LEASE_SEC)
        await send(world)

    world.faults.before("events.append", overtake)

    await assert_one_run(world, await send(world))


async def test_a_failed_overtaken_attempt_does_not_end_the_lease_of_the_other(world: World) -> None:
    begun, holder = Gate(), Gate()

    async def failing(turn: IdempotentAttempt) -> Answer:
        await begun(turn)
        raise RequestTooLarge

    first = asyncio.create_task(send(world, failing))
    await begun.begun.wait()
    world.clock.pass_time(LEASE_SEC)
    second = asyncio.create_task(send(world, holder))
    await holder.begun.wait()
    lease_until = (await record(world)).record.lease_until
    begun.proceed.set()
    with pytest.raises(RequestTooLarge):
        await first

    assert (await record(world)).record.lease_until == lease_until
    holder.proceed.set()
    assert (await second).answer == OK


# --- stored responses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 404, 409, 422])
async def test_a_success_and_a_rejection_are_stored(world: World, status: int) -> None:
    answer = Answer(status=status, body=b"{}", media_type="application/json", headers=(("location", "/runs/1"),))

    async def work(turn: IdempotentAttempt) -> Answer:
        return answer

    await send(world, work)

    assert await send(world, never) == Answered(answer=answer, replayed=True)


@pytest.mark.parametrize("status", [413, 500, 503])
async def test_other_responses_are_not_stored_and_the_next_request_resumes_at_once(world: World, status: int) -> None:
    turns: list[IdempotentAttempt] = []

    async def failing(turn: IdempotentAttempt) -> Answer:
        turns.append(turn)
        return Answer(status=status, body=b"")

    first = await send(world, failing)
    second = await send(world, failing)

    assert (first.answer.status, second.answer.status) == (status, status)
    assert not second.replayed
    assert turns[0].resource_id == turns[1].resource_id
    assert turns[0].context.commit_id == turns[1].context.commit_id
    assert [turn.context.resumed for turn in turns] == [False, True]


@pytest.mark.parametrize("error", [RequestTooLarge(), BrokerUnavailable(), ZeroDivisionError()], ids=repr)
async def test_an_exception_is_not_stored_and_the_next_request_resumes_at_once(world: World, error: Exception) -> None:
    async def failing(turn: IdempotentAttempt) -> Answer:
        raise error

    with pytest.raises(type(error)):
        await send(world, failing)
    begun = (await record(world)).record

    assert begun.lease_until == ENDED
    assert (await send(world, done)).answer.body == begun.resource_id.encode()


async def test_a_success_that_cannot_be_stored_is_returned(world: World) -> None:
    world.faults.fail("idempotency.replace")

    first = await send(world)
    world.clock.pass_time(LEASE_SEC)
    second = await send(world)

    assert second.answer.body == first.answer.body
    await assert_one_run(world, second)


async def test_a_rejection_that_cannot_be_stored_is_not_returned(world: World) -> None:
    async def refused(turn: IdempotentAttempt) -> Answer:
        return Answer(status=409, body=b"{}")

    world.faults.fail("idempotency.replace")

    with pytest.raises(BrokerUnavailable):
        await send(world, refused)


async def test_a_record_that_expires_during_a_wait_is_recreated(world: World) -> None:
    await send(world)

    async def expire() -> None:
        await world.truth.idempotency._bucket.purge(RECORD_KEY)

    world.faults.before("idempotency.get", expire)

    assert not (await send(world, done)).replayed
    assert (await send(world, never)).replayed


async def test_a_record_that_expires_during_the_work_is_stored_with_its_response(world: World) -> None:
    async def long_work(turn: IdempotentAttempt) -> Answer:
        await world.truth.idempotency._bucket.purge(RECORD_KEY)
        return OK

    await send(world, long_work)

    assert await send(world, never) == Answered(answer=OK, replayed=True)


# --- resources chosen during the work ---------------------------------------------------------------------------------


async def test_a_chosen_resource_is_used_by_the_next_attempt(world: World) -> None:
    async def choosing(turn: IdempotentAttempt) -> Answer:
        assert await turn.choose("node-7") == "node-7"
        assert turn.resource_id == "node-7"
        assert (await record(world)).record.resource_id == "node-7"
        raise BrokerUnavailable

    with pytest.raises(BrokerUnavailable):
        await send(world, choosing)

    assert (await send(world, done)).answer.body == b"node-7"


async def test_the_first_of_two_concurrent_choices_wins(world: World) -> None:
    chosen: list[str] = []

    async def theirs(turn: IdempotentAttempt) -> Answer:
        chosen.append(await turn.choose("theirs"))
        raise BrokerUnavailable

    async def ours(turn: IdempotentAttempt) -> Answer:
        world.clock.pass_time(LEASE_SEC)
        with pytest.raises(BrokerUnavailable):
            await send(world, theirs)
        chosen.append(await turn.choose("ours"))
        return OK

    await send(world, ours)

    assert chosen == ["theirs", "theirs"]


async def test_a_choice_is_stored_after_a_take_over_without_a_choice(world: World) -> None:
    async def fails(turn: IdempotentAttempt) -> Answer:
        raise BrokerUnavailable

    async def ours(turn: IdempotentAttempt) -> Answer:
        world.clock.pass_time(LEASE_SEC)
        with pytest.raises(BrokerUnavailable):
            await send(world, fails)
        assert await turn.choose("ours") == "ours"
        raise BrokerUnavailable

    with pytest.raises(BrokerUnavailable):
        await send(world, ours)

    assert (await send(world, done)).answer.body == b"ours"


async def test_without_a_key_a_choice_is_not_stored(world: World) -> None:
    turn = IdempotentAttempt(keyed_request().context, "first")

    assert await turn.choose("second") == turn.resource_id == "second"
    assert world.faults.calls == []


async def test_without_a_key_a_run_gets_the_id_that_was_chosen_for_it(world: World) -> None:
    run_id = world.stores.ids.run_id()

    execution = await SubmitService(stores=world.stores).submit(
        HELLO, ("default",), keyed_request().context, run_id=run_id
    )

    assert execution.execution_id == run_id
