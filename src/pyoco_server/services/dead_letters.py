"""Dead letters read page by page, and replayed as new runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyoco_server.domain.execution.commands import CreateExecution
from pyoco_server.domain.execution.events import ExecutionCreated, NodeCreated, StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import DeadLetterNotFound, DeadLetterNotReplayable, RunNotFound
from pyoco_server.services.executions.submit import submit_command
from pyoco_server.services.gateway import Gateway
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.services.maintenance.dead_letter_publisher import INVALID_JOB
from pyoco_server.stores import DeadLetter, StoredDeadLetter

logger = logging.getLogger(__name__)

# What one page may cost, however few letters fit; then its cursor carries on.
MOST_READ = 5_000
MOST_STRETCHES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQuery:
    """Which letters to show; None means any. `sees` is the only tenant whose runs exist for the caller."""

    limit: int = 50
    reason: str | None = None
    tag: str | None = None
    flow: str | None = None
    tenant_filter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPage:
    """Letters, newest first; older ones are behind `before` (None: there are none)."""

    items: tuple[StoredDeadLetter, ...]
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The new run, and the one that it repeats."""

    execution: Execution
    original: RunId


async def dead_letter_page(gateway: Gateway, query: DeadLetterQuery, before: int | None) -> DeadLetterPage:
    """The next letters that fit, at a bounded price: a page may be short, or empty, and still not be the last."""
    await gateway.lists.fresh()
    items: list[StoredDeadLetter] = []
    read = 0
    for _ in range(MOST_STRETCHES):
        stretch = await gateway.stores.dead_letters.stretch(before=before, tag=query.tag)
        read += len(stretch.letters)
        items += _fitting(gateway, query, stretch.letters)
        if len(items) > query.limit:
            return DeadLetterPage(items=tuple(items[: query.limit]), before=items[query.limit - 1].seq)
        before = stretch.before
        if before is None or len(items) == query.limit or read >= MOST_READ:
            break
    return DeadLetterPage(items=tuple(items), before=before)


def _fitting(gateway: Gateway, query: DeadLetterQuery, letters: Sequence[StoredDeadLetter]) -> list[StoredDeadLetter]:
    chosen = [
        filed
        for filed in letters
        if query.reason in (None, filed.letter.reason) and query.flow in (None, filed.letter.flow_name)
    ]
    if query.tenant_filter is None:
        return chosen
    theirs = gateway.runs_of(
        query.tenant_filter, [RunId(filed.letter.run_id) for filed in chosen if filed.letter.run_id]
    )
    return [filed for filed in chosen if filed.letter.run_id in theirs]


async def replay(
    gateway: Gateway, seq: int, turn: IdempotentAttempt, *, tenant_filter: str | None, api_key_id: str | None
) -> Replayed:
    """A new run of what the letter is about: the same flow, input, tag, labels and YAML, for the same tenant."""
    letter = await gateway.stores.dead_letters.get(seq)
    if letter is None or not _visible(gateway, letter, tenant_filter):
        raise DeadLetterNotFound(seq=seq)
    original = _replayable(letter)
    commits = await gateway.stores.events.read(original)
    execution = fold_commits(commits, empty_execution(original))
    if not execution.exists:
        raise DeadLetterNotReplayable(
            f"the data of run {original} is gone (retention, or it was never a run of this server); "
            "submit it anew with its flow and params",
            seq=seq,
            run_id=original,
        )
    create = _create_again(execution, commits, at=gateway.stores.clock.now(), api_key_id=api_key_id)
    created = await submit_command(gateway.stores, create, turn.origin, run_id=RunId(turn.resource_id))
    gateway.caretaker.mark_submitted(created.execution_id)
    logger.info("replayed a dead letter", extra={"run_id": created.execution_id, "replay_of": original, "seq": seq})
    return Replayed(execution=created, original=original)


def _visible(gateway: Gateway, letter: DeadLetter, tenant_filter: str | None) -> bool:
    if tenant_filter is None:
        return True
    return letter.run_id is not None and bool(gateway.runs_of(tenant_filter, [RunId(letter.run_id)]))


def _replayable(letter: DeadLetter) -> RunId:
    if letter.reason == INVALID_JOB or letter.run_id is None:
        raise DeadLetterNotReplayable(
            f"a letter of the reason {letter.reason} has no job that could be run again; "
            "mend whatever publishes it, or submit the run anew",
            reason=letter.reason,
        )
    try:
        return parse_run_id(letter.run_id)
    except RunNotFound as malformed:
        raise DeadLetterNotReplayable("the letter names no run of this server; submit it anew") from malformed


def _create_again(
    execution: Execution, commits: Sequence[StoredCommit], *, at: float, api_key_id: str | None
) -> CreateExecution:
    first = commits[0].commit.events
    created = next(event for event in first if isinstance(event, ExecutionCreated))
    request = replace(execution.request, replay_of=execution.execution_id, api_key_id=api_key_id)
    return CreateExecution(
        at=at,
        request=request,
        labels=execution.labels,
        graph=created.graph,
        node_ids=tuple(event.node_id for event in first if isinstance(event, NodeCreated)) if not created.graph else (),
        workflow_yaml=created.workflow_yaml,
    )
