"""The guarantees of every JobQueue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
import pytest
from msgspec.structs import replace

from pyoco_server.domain.ids import RunId
from pyoco_server.ports import Delivery, QueueState, TagQueue
from support.samples import job_for, new_run_id
from support.stores import ACK_WAIT_SEC, MAX_DELIVER, Ports


def run_ids(deliveries: Sequence[Delivery]) -> list[RunId]:
    return [orjson.loads(delivery.payload)["run_id"] for delivery in deliveries]


async def receive(queue: TagQueue, count: int) -> list[Delivery]:
    """This number of deliveries, over any number of calls."""
    found: list[Delivery] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += await queue.receive(count - len(found))
    return found


async def test_a_received_job_has_the_form_of_the_contract(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.queue.publish(job_for(run_id), created_sequence=7)
    queue = await ports.queue.open("default")

    (delivery,) = await receive(queue, 1)

    assert orjson.loads(delivery.payload) == {
        "run_id": run_id,
        "flow_name": "main",
        "tag": "default",
        "tags": ["a", "b"],
        "params": {"x": 1},
        "submitted_at": 1.0,
    }
    assert (delivery.tag, delivery.num_delivered, delivery.created_sequence) == ("default", 1, 7)
    await queue.close()


async def test_a_job_contains_the_whole_text_of_its_flow(ports: Ports) -> None:
    text = "# 大きなファイル\r\n" + "x" * 262_000
    await ports.queue.publish(replace(job_for(new_run_id()), workflow_yaml=text), created_sequence=1)
    queue = await ports.queue.open("default")

    (delivery,) = await receive(queue, 1)

    assert orjson.loads(delivery.payload)["workflow_yaml"] == text
    await queue.close()


@pytest.mark.parametrize("is_acked", [True, False], ids=["acked", "terminated"])
async def test_an_acknowledged_job_is_removed(ports: Ports, is_acked: bool) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    (delivery,) = await receive(queue, 1)
    assert len(await ports.queue.stored("default")) == 1

    await (delivery.ack() if is_acked else delivery.term())

    await depth_becomes(ports, 0)
    await queue.close()


async def test_jobs_of_another_tag_are_not_received(ports: Ports) -> None:
    mine, other = new_run_id(), new_run_id()
    await ports.queue.publish(job_for(other, "gpu"), created_sequence=1)
    await ports.queue.publish(job_for(mine, "cpu"), created_sequence=2)
    queue = await ports.queue.open("cpu")

    assert run_ids(await receive(queue, 1)) == [mine]
    assert len(await ports.queue.stored("gpu")) == 1
    await queue.close()


async def test_a_repeated_publish_is_dropped_and_the_next_nth_is_not(ports: Ports) -> None:
    job = job_for(new_run_id())

    await ports.queue.publish(job, created_sequence=1)
    await ports.queue.publish(job, created_sequence=1)
    assert len(await ports.queue.stored("default")) == 1

    await ports.queue.publish(job, created_sequence=1, nth=2)
    assert len(await ports.queue.stored("default")) == 2


async def test_a_returned_job_is_redelivered_with_a_higher_count(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.queue.publish(job_for(run_id), created_sequence=1)
    queue = await ports.queue.open("default")
    (first,) = await receive(queue, 1)

    await first.nak(0.0)

    (second,) = await receive(queue, 1)
    assert run_ids([second]) == [run_id]
    assert second.num_delivered == 2
    await queue.close()


async def test_a_job_returned_with_a_delay_is_redelivered_after_it(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    (first,) = await receive(queue, 1)
    loop = asyncio.get_running_loop()

    start = loop.time()
    await first.nak(0.3)
    await receive(queue, 1)

    assert loop.time() - start >= 0.25
    await queue.close()


async def test_an_unacknowledged_job_is_redelivered_after_the_ack_wait(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    assert queue.ack_wait_sec == ACK_WAIT_SEC
    await receive(queue, 1)

    (again,) = await receive(queue, 1)

    assert again.num_delivered == 2
    await queue.close()


async def test_progress_prevents_redelivery(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    (first,) = await receive(queue, 1)
    waiting = asyncio.create_task(receive(queue, 1))

    for _ in range(5):
        await asyncio.wait([waiting], timeout=ACK_WAIT_SEC / 3)
        await first.in_progress()

    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    await queue.close()


async def test_at_most_the_requested_number_of_jobs_is_received(ports: Ports) -> None:
    for _ in range(5):
        await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    other = await ports.queue.open("default")

    mine = await receive(queue, 2)
    theirs = await receive(other, 3)

    assert len(mine) == 2
    assert len(set(run_ids([*mine, *theirs]))) == 5
    await queue.close()
    await other.close()


async def test_a_cancelled_receive_loses_nothing(ports: Ports) -> None:
    run_id = new_run_id()
    queue = await ports.queue.open("default")
    waiting = asyncio.create_task(queue.receive(1))
    await asyncio.wait([waiting], timeout=0.1)
    waiting.cancel()
    await asyncio.wait([waiting])

    await ports.queue.publish(job_for(run_id), created_sequence=1)

    (delivery,) = await receive(queue, 1)
    assert run_ids([delivery]) == [run_id]
    assert delivery.num_delivered == 1
    await queue.close()


async def test_received_jobs_are_returned_on_close(ports: Ports) -> None:
    run_id = new_run_id()
    queue = await ports.queue.open("default")
    waiting = asyncio.create_task(queue.receive(1))
    await asyncio.wait([waiting], timeout=0.1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await ports.queue.publish(job_for(run_id), created_sequence=1)
    await queue.close()
    loop = asyncio.get_running_loop()

    start = loop.time()
    other = await ports.queue.open("default")

    assert run_ids(await receive(other, 1)) == [run_id]
    assert loop.time() - start < ACK_WAIT_SEC / 2
    await other.close()


async def test_the_state_of_an_unpulled_tag_counts_waiting_jobs(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)

    assert await ports.queue.state("default") == QueueState(waiting=1, in_work=0, redelivered=0)
    assert await ports.queue.state("unheard-of") == QueueState(waiting=0, in_work=0, redelivered=0)


async def test_the_state_counts_waiting_delivered_and_redelivered_jobs(ports: Ports) -> None:
    for _ in range(3):
        await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")

    (delivery,) = await receive(queue, 1)
    await state_becomes(ports, (2, 1, 0))
    await delivery.nak(0.0)
    first, *others = await receive(queue, 3)
    again = next(job for job in (first, *others) if job.num_delivered == 2)
    await state_becomes(ports, (0, 3, 1))
    await again.ack()

    await state_becomes(ports, (0, 2, 0))
    await queue.close()


async def state_becomes(ports: Ports, wanted: tuple[int, int, int]) -> None:
    async with asyncio.timeout(5):
        while True:
            state = await ports.queue.state("default")
            if (state.waiting, state.in_work, state.redelivered) == wanted:
                return


async def given_up(ports: Ports) -> None:
    while (await ports.queue.state("default")).given_up_through == 0:  # noqa: ASYNC110 - the notification is early
        await asyncio.sleep(0.01)


async def depth_becomes(ports: Ports, count: int) -> None:
    """Waits for the effect of acks, which are sent without waiting."""
    async with asyncio.timeout(5):
        while len(await ports.queue.stored("default")) != count:
            pass


# --- reads and changes by other processes -----------------------------------------------------------------------------


async def test_any_process_can_return_a_delivered_job(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.queue.publish(job_for(run_id), created_sequence=1)
    queue = await ports.queue.open("default")
    (first,) = await receive(queue, 1)
    await first.in_progress()

    await ports.queue.give_back(first.return_to)

    (second,) = await receive(queue, 1)
    assert (run_ids([second]), second.num_delivered) == ([run_id], 2)
    await queue.close()


async def test_a_job_is_returned_although_later_jobs_are_acknowledged(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.queue.publish(job_for(run_id), created_sequence=1)
    queue = await ports.queue.open("default")
    (first,) = await receive(queue, 1)
    await ports.queue.give_back(first.return_to)
    await receive(queue, 1)
    for number in (2, 3):
        await ports.queue.publish(job_for(new_run_id()), created_sequence=number)
        (other,) = await receive(queue, 1)
        await other.ack()
        await depth_becomes(ports, 1)

    await ports.queue.give_back(first.return_to)

    (third,) = await receive(queue, 1)
    assert (run_ids([third]), third.num_delivered) == ([run_id], 3)
    await queue.close()


async def test_only_delivered_jobs_are_returned(ports: Ports) -> None:
    ids = [new_run_id() for _ in range(3)]
    for number, run_id in enumerate(ids, start=1):
        await ports.queue.publish(job_for(run_id), created_sequence=number)
    queue = await ports.queue.open("default")
    known, ahead = await receive(queue, 2)
    await ahead.in_progress()
    jobs = await ports.queue.stored("default")

    await ports.queue.take_back(jobs[1:], like=known.return_to)

    again = await receive(queue, 2)
    assert sorted((*run_ids([one]), one.num_delivered) for one in again) == sorted([(ids[1], 2), (ids[2], 1)])
    await queue.close()


async def test_returning_a_waiting_job_does_not_deliver_it_twice(ports: Ports) -> None:
    done, waits = new_run_id(), new_run_id()
    await ports.queue.publish(job_for(done), created_sequence=1)
    queue = await ports.queue.open("default")
    (first,) = await receive(queue, 1)
    await first.ack()
    await depth_becomes(ports, 0)
    await ports.queue.publish(job_for(waits), created_sequence=2)

    await ports.queue.take_back(await ports.queue.stored("default"), like=first.return_to)

    (only,) = await receive(queue, 1)
    assert (run_ids([only]), only.num_delivered) == ([waits], 1)
    await only.ack()
    await depth_becomes(ports, 0)
    await queue.close()


async def test_an_acknowledged_job_is_not_returned(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    (done,) = await receive(queue, 1)
    await done.term()
    await depth_becomes(ports, 0)

    await ports.queue.give_back(done.return_to)

    waiting = new_run_id()
    await ports.queue.publish(job_for(waiting), created_sequence=2)
    assert run_ids(await receive(queue, 1)) == [waiting]
    await queue.close()


async def test_stored_jobs_are_listed_in_order_without_being_received(ports: Ports) -> None:
    first, second, third = (new_run_id() for _ in range(3))
    for place, run_id in enumerate((first, second, third), start=1):
        await ports.queue.publish(job_for(run_id), created_sequence=place)

    shown = await ports.queue.stored("default", limit=2)
    rest = await ports.queue.stored("default", after=shown[-1].sequence)
    between = await ports.queue.stored("default", after=shown[0].sequence, upto=shown[1].sequence)

    assert list(between) == [shown[1]]
    assert [orjson.loads(job.payload)["run_id"] for job in (*shown, *rest)] == [first, second, third]
    assert [job.created_sequence for job in shown] == [1, 2]
    assert (await ports.queue.state("default")).waiting == 3
    assert await ports.queue.tags() == ["default"]


async def test_an_invalid_tag_is_not_listed(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id(), tag="default.strange"), created_sequence=1)
    await ports.queue.publish(job_for(new_run_id()), created_sequence=2)

    assert await ports.queue.tags() == ["default"]


async def test_a_discarded_job_is_removed_and_may_be_discarded_twice(ports: Ports) -> None:
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    (job,) = await ports.queue.stored("default")

    await ports.queue.discard(job)
    await ports.queue.discard(job)

    assert len(await ports.queue.stored("default")) == 0
    assert await ports.queue.tags() == []


async def test_a_job_without_deliveries_left_is_reported(ports: Ports) -> None:
    reported = asyncio.Event()
    await ports.queue.on_given_up(reported.set)
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    for _ in range(MAX_DELIVER):
        (delivery,) = await receive(queue, 1)
        assert (await ports.queue.state("default")).given_up_through == 0
        await delivery.nak(0.0)

    asking = asyncio.ensure_future(queue.receive(1))  # the broker gives up when it should deliver once more
    async with asyncio.timeout(10):
        await reported.wait()
        await given_up(ports)
    asking.cancel()

    (left,) = await ports.queue.stored("default")
    assert left.sequence <= (await ports.queue.state("default")).given_up_through
    await queue.close()
