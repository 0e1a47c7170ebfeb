"""Requests with a key that are interrupted and repeated."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyoco_server.domain.idempotency.keys import IdempotencyKey, RecordKey
from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.services.idempotency import Answered, Asked, IdempotentAttempt
from pyoco_server.stores import StoredRecord
from support.attempts import Work, once
from support.faults import Action
from support.world import HELLO, USER, World

RECORD_KEY = RecordKey("0" * 64)


def keyed_request(request_hash: str = "sha256:1", key: str = "k-1") -> Asked:
    return Asked(
        record_key=RECORD_KEY,
        key=IdempotencyKey(key),
        endpoint="POST /runs",
        request_hash=request_hash,
        context=USER,
    )


@dataclass
class Submits:
    """Work that submits a run, and its attempts."""

    stores: Stores
    turns: list[IdempotentAttempt] = field(default_factory=list)

    async def __call__(self, turn: IdempotentAttempt) -> Answer:
        self.turns.append(turn)
        execution = await SubmitService(stores=self.stores).submit(
            HELLO, ("default",), turn.context, run_id=RunId(turn.resource_id)
        )
        return Answer(status=200, body=execution.execution_id.encode())


async def send(world: World, work: Work | None = None, request: Asked | None = None) -> Answered:
    """Executes the work once; by default submits a run."""
    request = keyed_request() if request is None else request
    return await once(world.stores, request, world.stores.ids.run_id, work or Submits(world.stores))


def crash(world: World) -> Action:
    """From now on no call reaches a store, until the test restores the connection."""

    async def now() -> None:
        world.faults.is_offline = True
        raise BrokerUnavailable

    return now


async def record(world: World) -> StoredRecord:
    """The record of the request."""
    stored = await world.truth.idempotency.get(RECORD_KEY)
    assert stored is not None
    return stored
