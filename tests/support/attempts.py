"""Work with an idempotency key, for callers that have the work as a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.services.context import Stores
from pyoco_server.services.idempotency import Answered, Asked, IdempotentAttempt, begin

Work = Callable[[IdempotentAttempt], Awaitable[Answer]]


async def once(stores: Stores, asked: Asked, new_resource_id: Callable[[], str], work: Work) -> Answered:
    """The answer of the work, or the stored one."""
    begun = await begin(stores, asked, new_resource_id)
    if isinstance(begun, Answer):
        return Answered(answer=begun, replayed=True)
    try:
        answer = await work(begun)
    except BaseException:
        await begun.abandon()
        raise
    return await begun.finish(answer)
