"""List dead letters page by page, and replay one as a new run."""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from dataclasses import dataclass

from msgspec.structs import replace

from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, Work, empty_execution
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import DeadLetterNotFound, DeadLetterNotReplayable, RunNotFound
from pyoco_server.services.executions.rerun import create_again
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.services.maintenance.dead_jobs import INVALID_JOB
from pyoco_server.services.projections.lists import ListService
from pyoco_server.stores import DeadLetter, StoredDeadLetter

logger = logging.getLogger(__name__)

# The cost of one page, however few dead letters match; its cursor continues behind it.
MAX_READ = 5_000
MAX_BATCHES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterService:
    """The dead letters of all gateways."""

    executions: ExecutionService
    lists: ListService

    async def page(
        self,
        limit: int,
        before: int | None,
        *,
        reason: str | None,
        tag: str | None,
        flow: str | None,
        tenant_filter: str | None,
    ) -> tuple[list[StoredDeadLetter], int | None]:
        """The next matching dead letters, newest first, and where older ones begin (None: there are none).

        The cost is bounded: a page may be short, or empty, and not be the last. `tenant_filter` hides those of other
        tenants' runs.
        """
        await self.lists.fresh()
        items: list[StoredDeadLetter] = []
        read = 0
        for _ in range(MAX_BATCHES):
            batch = await self.lists.stores.dead_letters.stretch(before=before, tag=tag)
            read += len(batch.letters)
            chosen = [
                stored
                for stored in batch.letters
                if reason in (None, stored.letter.reason) and flow in (None, stored.letter.flow_name)
            ]
            visible = self._visible([stored.letter for stored in chosen], tenant_filter)
            items += [stored for stored in chosen if visible is None or stored.letter.run_id in visible]
            if len(items) > limit:
                return items[:limit], items[limit - 1].seq
            before = batch.before
            if before is None or len(items) == limit or read >= MAX_READ:
                break
        return items, before

    async def replay(
        self, seq: int, attempt: IdempotentAttempt, *, tenant_filter: str | None, api_key_id: str | None
    ) -> Execution:
        """Submit the run of a dead letter again: the same flow, input, tag, labels and YAML, for the same tenant."""
        stores = self.executions.stores
        dead_letter = await stores.dead_letters.get(seq)
        if dead_letter is None or self._visible([dead_letter], tenant_filter) == set():
            raise DeadLetterNotFound(seq=seq)
        original = _replayable(dead_letter)
        commits = await stores.events.read(original)
        execution = fold_commits(commits, empty_execution(original))
        if not execution.exists:
            raise DeadLetterNotReplayable(
                f"the data of run {original} is gone (retention, or it was never a run of this server); "
                "submit it anew with its flow and params",
                seq=seq,
                run_id=original,
            )
        # Queued at once, also where the original waited for its start: a replay is never started by hand.
        request = replace(execution.request, replay_of=original, rerun_of=None, api_key_id=api_key_id, work=Work.QUEUED)
        create = create_again(commits[0].commit, request, execution.labels, at=stores.clock.now())
        created = await self.executions.submit_command(create, attempt.context, run_id=RunId(attempt.resource_id))
        logger.info("dead letter replayed", extra={"run_id": created.execution_id, "replay_of": original, "seq": seq})
        return created

    def _visible(self, letters: Sequence[DeadLetter], tenant_filter: str | None) -> Set[str] | None:
        """The runs of these dead letters that the tenant may see; None for all."""
        if tenant_filter is None:
            return None
        return self.lists.runs_of(tenant_filter, [RunId(letter.run_id) for letter in letters if letter.run_id])


def _replayable(dead_letter: DeadLetter) -> RunId:
    if dead_letter.reason == INVALID_JOB or dead_letter.run_id is None:
        raise DeadLetterNotReplayable(
            f"a dead letter of the reason {dead_letter.reason} has no job that could be run again; "
            "fix its producer, or submit the run anew",
            reason=dead_letter.reason,
        )
    try:
        return parse_run_id(dead_letter.run_id)
    except RunNotFound as malformed:
        raise DeadLetterNotReplayable("the dead letter names no run of this server; submit it anew") from malformed
