"""The one way in which an execution changes: decide, append behind what we have seen, advance the snapshot.

Nobody else appends. A conflict means that somebody was faster: read what they wrote and decide again on what is true
now. Nothing is refused on the word of a snapshot alone, because another writer may stand between append and advance.

A request with an idempotency key may be carried on by several, one after the other or at once. All use one commit id,
and whoever finds it in the log has succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide_and_fold
from pyoco_server.domain.execution.events import Commit, Events, StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution, fast_replace
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.errors import AppendConflict, CommandRejected, RunNotFound
from pyoco_server.ports import Conflict, Stored
from pyoco_server.services.context import CommandContext, Stores

# Each conflict is somebody else's success, so many in a row mean a crowd, not a fault.
MAX_CONFLICTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What came of a command: the execution as it is now, our events (none: it was so already), or a refusal.

    `commit_id` is that of our events, `sequence` the place of their commit in the log: who carries on with a request
    finds it there when others have written behind it. `looked`: the log was read for it, so others' commits may be in
    the execution.
    """

    execution: Execution
    events: Events = ()
    refused: Rejection | None = None
    commit_id: CommitId | None = None
    sequence: int | None = None
    looked: bool = False

    @property
    def version(self) -> int:
        """The version that our events made, whoever asks and however late; without events, the present one."""
        return self.execution.version if self.sequence is None else self.sequence

    def accepted(self) -> Execution:
        """The execution, or the refusal as an error."""
        if self.refused is None:
            return self.execution
        if self.refused.why is RejectionReason.NOT_FOUND:
            raise RunNotFound(run_id=self.execution.execution_id)
        raise CommandRejected(self.refused.detail, why=self.refused.why.name, run_id=self.execution.execution_id)


async def handle(stores: Stores, run_id: RunId, command: Command, origin: CommandContext) -> CommandResult:
    """Carry out a command on a run; when it returns, log and snapshot both have it."""
    loaded = await stores.snapshots.load(run_id)
    known = loaded.execution if loaded else empty_execution(run_id)
    handled = await commit(stores, known, command, origin)
    if handled.execution.version > known.version:
        await stores.snapshots.advance(handled.execution, known=loaded, create=loaded is None)
    return handled


async def commit(
    stores: Stores, execution: Execution, command: Command, origin: CommandContext, *, is_new: bool = False
) -> CommandResult:
    """Decide and append, starting from an execution we know; the snapshot is left to the caller.

    `is_new`: the caller knows that the execution does not have the origin's commit in it.
    """
    if not is_new and await _may_be_there(execution, origin):
        handled = await _carry_on(stores, execution, command, origin)
    else:
        handled = await _commit(stores, execution, command, origin)
    if origin.hold is not None and handled.commit_id is not None:
        origin.hold.emitted(handled.commit_id, len(handled.events))
    return handled


async def _carry_on(stores: Stores, execution: Execution, command: Command, origin: CommandContext) -> CommandResult:
    commits = await stores.events.read(execution.execution_id)
    execution = fold_commits(commits, empty_execution(execution.execution_id))
    if origin.commit_id is not None and (found := _found(commits, origin.commit_id)):
        return _carried_on(execution, found)
    return fast_replace(await _commit(stores, execution, command, origin), looked=True)


async def _commit(stores: Stores, execution: Execution, command: Command, origin: CommandContext) -> CommandResult:
    commit_id, looked = origin.commit_id or stores.ids.commit_id(), False
    for _ in range(MAX_CONFLICTS):
        verdict, after = decide_and_fold(execution, command)
        if verdict and not isinstance(verdict, Rejection):
            ours = _written(stores, command, verdict, commit_id, origin)
            appended = await stores.events.append(execution.execution_id, ours, after=execution.version)
            if isinstance(appended, Stored) and (origin.commit_id is None or not appended.found):
                now = fast_replace(after, version=appended.version)
                return CommandResult(
                    execution=now, events=verdict, commit_id=commit_id, sequence=appended.version, looked=looked
                )
            stores.counters.append_conflicts += isinstance(appended, Conflict)
        newer, looked = await stores.events.read(execution.execution_id, after=execution.version), True
        if not newer:
            return _answer(execution, verdict)
        execution = fold_commits(newer, execution)
        # Ours by whoever carried on with the same request: what they decided counts, not what we would have.
        if found := _found(newer, commit_id):
            return _carried_on(execution, found)
    raise AppendConflict(run_id=execution.execution_id)


async def _may_be_there(execution: Execution, origin: CommandContext) -> bool:
    """Whether the execution that we know may have our commit in it already. (A new one has nothing in it.)"""
    if origin.resumed:
        return True
    return execution.version > 0 and origin.hold is not None and await origin.hold.overtaken()


def _found(commits: Sequence[StoredCommit], commit_id: CommitId) -> StoredCommit | None:
    return next((stored for stored in commits if stored.commit.commit_id == commit_id), None)


def _carried_on(execution: Execution, found: StoredCommit) -> CommandResult:
    ours = found.commit
    return CommandResult(
        execution=execution, events=ours.events, commit_id=ours.commit_id, sequence=found.sequence, looked=True
    )


def _written(stores: Stores, command: Command, events: Events, commit_id: CommitId, origin: CommandContext) -> Commit:
    return Commit(
        commit_id=commit_id,
        occurred_at=stores.clock.now(),
        command=type(command).__name__,
        actor=origin.actor,
        events=events,
        correlation_id=origin.correlation_id,
        idempotency_key=origin.idempotency_key,
    )


def _answer(execution: Execution, verdict: Events | Rejection) -> CommandResult:
    if isinstance(verdict, Rejection):
        return CommandResult(execution=execution, refused=verdict, looked=True)
    if not verdict:
        return CommandResult(execution=execution, looked=True)
    # We wanted to append behind something that the log no longer has: retention removed the run under us.
    raise RunNotFound(run_id=execution.execution_id)
