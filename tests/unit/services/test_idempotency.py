"""A request with a key is done once: however often it is sent, at once or later, and whoever dies over it."""

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
from support.keyed import RECORD_KEY, Submits, ask, asked, killed, record
from support.world import HELLO, World

OK = Answer(status=200, body=b"done")


async def done(turn: IdempotentAttempt) -> Answer:
    return structs.replace(OK, body=turn.resource_id.encode())


class Gate:
    """Work that tells when it has begun, and ends when it is let go."""

    def __init__(self, answer: Answer = OK) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.answer = answer

    async def __call__(self, turn: IdempotentAttempt) -> Answer:
        self.begun.set()
        await self.go_on.wait()
        return self.answer


async def never(turn: IdempotentAttempt) -> Answer:
    raise AssertionError("it was done before")


async def assert_one_run(world: World, answered: Answered) -> RunId:
    """One run, one job, and the answer is about it."""
    run_id = RunId(answered.answer.body.decode())
    (seen,) = [batch async for batch in world.feed.commits(after=0)]
    assert [one.run_id for one in seen] == [run_id]
    assert await world.status(run_id) == "PENDING"
    assert len(await world.truth.queue.stored("default")) == 1
    return run_id


async def test_what_was_answered_is_answered_again_and_not_done_again(world: World) -> None:
    first = await ask(world)

    second = await ask(world, never)

    assert (first.replayed, second.replayed) == (False, True)
    assert second.answer.body == first.answer.body
    await assert_one_run(world, second)


async def test_the_record_says_what_the_request_was_and_which_events_came_of_it(world: World) -> None:
    answered = await ask(world)

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
    first = asyncio.create_task(ask(world, gate))
    await gate.begun.wait()
    if is_finished:
        gate.go_on.set()
        await first

    with pytest.raises(IdempotencyConflict) as refused:
        await ask(world, never, asked("sha256:2"))

    assert (refused.value.err_id, refused.value.code) == ("ERR-PYOCO-0047", "IDEMPOTENCY_CONFLICT")
    gate.go_on.set()
    assert (await first).answer == OK


async def test_many_at_once_are_one_and_all_get_its_answer(world: World) -> None:
    submits = Submits(world.stores)

    answers = await asyncio.gather(*(ask(world, submits) for _ in range(8)))

    assert len(submits.turns) == 1
    assert [answered.replayed for answered in answers].count(False) == 1
    assert len({answered.answer.body for answered in answers}) == 1
    await assert_one_run(world, answers[0])


async def test_a_second_one_waits_for_the_first(world: World) -> None:
    gate = Gate()
    first = asyncio.create_task(ask(world, gate))
    await gate.begun.wait()

    second = asyncio.create_task(ask(world, never))
    for _ in range(3):
        await world.faults.tried("idempotency.get")
    gate.go_on.set()

    assert (await second).answer == (await first).answer
    assert (await second).replayed


# --- killed on the way ------------------------------------------------------------------------------------------------


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
async def test_wherever_the_first_is_killed_the_next_one_carries_on_to_one_run_one_job_and_one_answer(
    world: World, where: str, call: str
) -> None:
    (world.faults.before if where == "before" else world.faults.after)(call, killed(world))
    submits = Submits(world.stores)
    try:
        await ask(world, submits)
    except BrokerUnavailable:
        assert call != "idempotency.replace"
    begun = (await record(world)).record
    world.faults.away = False
    world.clock.pass_time(LEASE_SEC)

    answers = [await ask(world, submits) for _ in range(3)]

    run_id = await assert_one_run(world, answers[0])
    assert run_id == begun.resource_id == submits.turns[0].resource_id
    assert len({answered.answer for answered in answers}) == 1
    kept = (await record(world)).record.answer
    assert kept is not None
    assert kept.event_ids == (f"{begun.commit_id}.0",)
    assert {turn.context.commit_id for turn in submits.turns} == {begun.commit_id}
    assert [turn.context.resumed for turn in submits.turns] == [False, True][: len(submits.turns)]


async def test_one_who_is_killed_before_the_record_has_left_nothing(world: World) -> None:
    world.faults.before("idempotency.create", killed(world))
    with pytest.raises(BrokerUnavailable):
        await ask(world)
    world.faults.away = False

    await assert_one_run(world, await ask(world))


async def test_a_run_that_a_worker_has_begun_meanwhile_is_answered_and_not_queued_again(world: World) -> None:
    world.faults.before("idempotency.replace", killed(world))
    first = await ask(world)
    world.faults.away = False
    world.clock.pass_time(LEASE_SEC)
    run_id = RunId(first.answer.body.decode())
    await world.start(run_id)
    world.faults.calls.clear()

    second = await ask(world)

    assert second.answer.body == first.answer.body
    assert "queue.publish" not in world.faults.calls
    assert await world.status(run_id) == "RUNNING"


async def test_with_a_key_a_submit_that_got_half_way_is_not_undone(world: World) -> None:
    world.faults.fail("queue.publish")
    with pytest.raises(BrokerUnavailable):
        await ask(world)

    second = await ask(world)

    run_id = await assert_one_run(world, second)
    assert [stored.commit.command for stored in await world.truth.events.read(run_id)] == ["CreateExecution"]


async def test_with_a_key_a_first_event_without_an_answer_is_no_orphan(world: World) -> None:
    world.faults.lose_answer("events.append")
    with pytest.raises(Unanswered):
        await ask(world)

    await assert_one_run(world, await ask(world))


# --- leases -----------------------------------------------------------------------------------------------------------


async def test_a_lease_that_nobody_renews_ends_by_the_clock_of_whoever_waits(world: World) -> None:
    """The holder's clock is a million seconds ahead, and the holder is dead."""
    world.faults.before("events.append", killed(world))
    ahead = replace(world.stores, clock=ManualClock(now=2_000_000.0))
    with pytest.raises(BrokerUnavailable):
        await once(ahead, asked(), world.stores.ids.run_id, Submits(world.stores))
    world.faults.away = False

    waiting = asyncio.create_task(ask(world))
    for _ in range(2):
        await world.faults.tried("idempotency.get")
        assert not waiting.done()
    world.clock.pass_time(LEASE_SEC)

    await assert_one_run(world, await waiting)


async def test_a_lease_that_is_renewed_is_waited_for_anew(world: World) -> None:
    holder = Gate()
    first = asyncio.create_task(ask(world, holder))
    await holder.begun.wait()
    waiting = asyncio.create_task(ask(world, never))
    await world.faults.tried("idempotency.get")

    for _ in range(3):
        world.clock.pass_time(LEASE_SEC - 1)
        stored = await record(world)
        renewed = structs.replace(stored.record, lease_until=world.now() + LEASE_SEC)
        assert await world.truth.idempotency.replace(RECORD_KEY, renewed, revision=stored.revision)
        for _ in range(2):
            await world.faults.tried("idempotency.get")
    holder.go_on.set()

    assert (await waiting).answer == (await first).answer == OK


async def test_the_lease_is_renewed_while_the_work_goes_on_and_not_a_moment_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "RENEW_EVERY_SEC", 0.0)
    world.faults.fail("idempotency.replace")  # one that fails is made up for by the next

    async def long_work(turn: IdempotentAttempt) -> Answer:
        world.clock.pass_time(60.0)
        await world.faults.done("idempotency.replace", 2)
        assert (await record(world)).record.lease_until == world.now() + LEASE_SEC
        return OK

    assert (await ask(world, long_work)).answer == OK
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (await record(world)).record.answer == OK


async def test_work_that_is_cancelled_leaves_no_task_and_no_lease(world: World) -> None:
    gate = Gate()
    asking = asyncio.create_task(ask(world, gate))
    await gate.begun.wait()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (await record(world)).record.lease_until == ENDED


async def test_of_two_who_work_at_once_both_give_the_answer_that_was_kept_first(world: World) -> None:
    slow = Gate(Answer(status=200, body=b"the slow one's"))
    first = asyncio.create_task(ask(world, slow))
    await slow.begun.wait()
    world.clock.pass_time(LEASE_SEC)

    second = await ask(world, done)
    slow.go_on.set()

    assert (await first).answer == second.answer
    assert (await first).replayed


async def test_of_two_who_work_at_once_the_overtaken_may_be_the_first_to_answer(world: World) -> None:
    first, second = Gate(Answer(status=200, body=b"first")), Gate(Answer(status=200, body=b"second"))
    one = asyncio.create_task(ask(world, first))
    await first.begun.wait()
    world.clock.pass_time(LEASE_SEC)
    other = asyncio.create_task(ask(world, second))
    await second.begun.wait()

    first.go_on.set()
    await one
    second.go_on.set()

    assert (await one).answer.body == (await other).answer.body == b"first"


async def test_two_who_submit_at_once_submit_one_run(world: World) -> None:
    """The first sleeps between its record and the log, and is overtaken there."""

    async def the_other() -> None:
        world.clock.pass_time(LEASE_SEC)
        await ask(world)

    world.faults.before("events.append", the_other)

    await assert_one_run(world, await ask(world))


async def test_an_overtaken_one_that_fails_does_not_end_the_lease_of_the_other(world: World) -> None:
    begun, holder = Gate(), Gate()

    async def failing(turn: IdempotentAttempt) -> Answer:
        await begun(turn)
        raise RequestTooLarge

    first = asyncio.create_task(ask(world, failing))
    await begun.begun.wait()
    world.clock.pass_time(LEASE_SEC)
    second = asyncio.create_task(ask(world, holder))
    await holder.begun.wait()
    lease_until = (await record(world)).record.lease_until
    begun.go_on.set()
    with pytest.raises(RequestTooLarge):
        await first

    assert (await record(world)).record.lease_until == lease_until
    holder.go_on.set()
    assert (await second).answer == OK


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 404, 409])
async def test_a_success_and_a_refusal_are_kept(world: World, status: int) -> None:
    answer = Answer(status=status, body=b"{}", media_type="application/json", headers=(("location", "/runs/1"),))

    async def work(turn: IdempotentAttempt) -> Answer:
        return answer

    await ask(world, work)

    assert await ask(world, never) == Answered(answer=answer, replayed=True)


@pytest.mark.parametrize("status", [413, 422, 500, 503])
async def test_whatever_else_is_answered_is_not_kept_and_the_next_carries_on_at_once(world: World, status: int) -> None:
    turns: list[IdempotentAttempt] = []

    async def failing(turn: IdempotentAttempt) -> Answer:
        turns.append(turn)
        return Answer(status=status, body=b"")

    first = await ask(world, failing)
    second = await ask(world, failing)

    assert (first.answer.status, second.answer.status) == (status, status)
    assert not second.replayed
    assert turns[0].resource_id == turns[1].resource_id
    assert turns[0].context.commit_id == turns[1].context.commit_id
    assert [turn.context.resumed for turn in turns] == [False, True]


@pytest.mark.parametrize("error", [RequestTooLarge(), BrokerUnavailable(), ZeroDivisionError()], ids=repr)
async def test_what_is_raised_is_not_kept_and_the_next_carries_on_at_once(world: World, error: Exception) -> None:
    async def failing(turn: IdempotentAttempt) -> Answer:
        raise error

    with pytest.raises(type(error)):
        await ask(world, failing)
    begun = (await record(world)).record

    assert begun.lease_until == ENDED
    assert (await ask(world, done)).answer.body == begun.resource_id.encode()


async def test_an_answer_that_cannot_be_kept_is_given_all_the_same(world: World) -> None:
    world.faults.fail("idempotency.replace")

    first = await ask(world)
    world.clock.pass_time(LEASE_SEC)
    second = await ask(world)

    assert second.answer.body == first.answer.body
    await assert_one_run(world, second)


async def test_a_refusal_that_cannot_be_kept_is_not_given(world: World) -> None:
    async def refused(turn: IdempotentAttempt) -> Answer:
        return Answer(status=409, body=b"{}")

    world.faults.fail("idempotency.replace")

    with pytest.raises(BrokerUnavailable):
        await ask(world, refused)


async def test_a_record_that_has_had_its_time_while_somebody_waits_is_begun_anew(world: World) -> None:
    await ask(world)

    async def expire() -> None:
        await world.truth.idempotency._bucket.purge(RECORD_KEY)

    world.faults.before("idempotency.get", expire)

    assert not (await ask(world, done)).replayed
    assert (await ask(world, never)).replayed


async def test_a_record_that_has_had_its_time_while_it_is_worked_on_is_kept_with_its_answer(world: World) -> None:
    async def long_work(turn: IdempotentAttempt) -> Answer:
        await world.truth.idempotency._bucket.purge(RECORD_KEY)
        return OK

    await ask(world, long_work)

    assert await ask(world, never) == Answered(answer=OK, replayed=True)


# --- a resource that is found later -----------------------------------------------------------------------------------


async def test_what_the_work_has_chosen_is_what_the_next_one_carries_on_with(world: World) -> None:
    async def choosing(turn: IdempotentAttempt) -> Answer:
        assert await turn.choose("node-7") == "node-7"
        assert turn.resource_id == "node-7"
        assert (await record(world)).record.resource_id == "node-7"
        raise BrokerUnavailable

    with pytest.raises(BrokerUnavailable):
        await ask(world, choosing)

    assert (await ask(world, done)).answer.body == b"node-7"


async def test_of_two_who_choose_the_first_choice_counts_for_both(world: World) -> None:
    chosen: list[str] = []

    async def theirs(turn: IdempotentAttempt) -> Answer:
        chosen.append(await turn.choose("theirs"))
        raise BrokerUnavailable

    async def ours(turn: IdempotentAttempt) -> Answer:
        world.clock.pass_time(LEASE_SEC)
        with pytest.raises(BrokerUnavailable):
            await ask(world, theirs)
        chosen.append(await turn.choose("ours"))
        return OK

    await ask(world, ours)

    assert chosen == ["theirs", "theirs"]


async def test_a_choice_is_stored_although_somebody_else_carries_on_and_has_not_chosen(world: World) -> None:
    async def fails(turn: IdempotentAttempt) -> Answer:
        raise BrokerUnavailable

    async def ours(turn: IdempotentAttempt) -> Answer:
        world.clock.pass_time(LEASE_SEC)
        with pytest.raises(BrokerUnavailable):
            await ask(world, fails)
        assert await turn.choose("ours") == "ours"
        raise BrokerUnavailable

    with pytest.raises(BrokerUnavailable):
        await ask(world, ours)

    assert (await ask(world, done)).answer.body == b"ours"


async def test_without_a_key_a_choice_is_only_for_the_turn(world: World) -> None:
    turn = IdempotentAttempt(asked().context, "first")

    assert await turn.choose("second") == turn.resource_id == "second"
    assert world.faults.calls == []


async def test_without_a_key_a_run_gets_the_id_that_was_chosen_for_it(world: World) -> None:
    run_id = world.stores.ids.run_id()

    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), asked().context, run_id=run_id)

    assert execution.execution_id == run_id
