"""The one way in which an execution changes: decide, append behind what we have seen, advance the snapshot.

Nobody else appends. A conflict means that somebody was faster: read what they wrote and decide again on what is true
now. Nothing is refused on the word of a snapshot alone, because another writer may stand between append and advance.

A request with an idempotency key may be carried on by several, one after the other or at once. All use one commit id,
and whoever finds it in the log has succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_server.application.ports import Conflict, Stored
from pyoco_server.application.stores import Origin, Stores
from pyoco_server.errors import AppendConflict, CommandRejected, RunNotFound
from pyoco_server.execution.commands import Command
from pyoco_server.execution.decide import Refused, Why, decide_and_fold
from pyoco_server.execution.events import Commit, Events, StoredCommit
from pyoco_server.execution.evolve import fold_commits
from pyoco_server.execution.ids import CommitId, RunId
from pyoco_server.execution.state import Execution, changed, nothing

# Each conflict is somebody else's success, so many in a row mean a crowd, not a fault.
MAX_CONFLICTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """What came of a command: the execution as it is now, our events (none: it was so already), or a refusal.

    `commit_id` is that of our events, `committed` the sequence under which the log keeps them. `looked`: the log was
    read for it, so others' commits may be in the execution, before ours and behind.
    """

    execution: Execution
    events: Events = ()
    refused: Refused | None = None
    commit_id: CommitId | None = None
    committed: int | None = None
    looked: bool = False

    @property
    def version(self) -> int:
        """The execution as it was with our events; who carries on may find it further on than that."""
        return self.execution.version if self.committed is None else self.committed

    def accepted(self) -> Execution:
        """The execution, or the refusal as an error."""
        if self.refused is None:
            return self.execution
        if self.refused.why is Why.NOT_FOUND:
            raise RunNotFound(run_id=self.execution.execution_id)
        raise CommandRejected(self.refused.detail, why=self.refused.why.name, run_id=self.execution.execution_id)


async def handle(stores: Stores, run_id: RunId, command: Command, origin: Origin) -> Handled:
    """Carry out a command on a run; when it returns, log and snapshot both have it."""
    loaded = await stores.snapshots.load(run_id)
    known = loaded.execution if loaded else nothing(run_id)
    handled = await commit(stores, known, command, origin)
    if handled.execution.version > known.version:
        await stores.snapshots.advance(handled.execution, known=loaded, create=loaded is None)
    return handled


async def commit(
    stores: Stores, execution: Execution, command: Command, origin: Origin, *, is_new: bool = False
) -> Handled:
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


async def _carry_on(stores: Stores, execution: Execution, command: Command, origin: Origin) -> Handled:
    commits = await stores.log.read(execution.execution_id)
    execution = fold_commits(commits, nothing(execution.execution_id))
    if origin.commit_id is not None and (found := _found(commits, origin.commit_id)):
        return _done(execution, found)
    return changed(await _commit(stores, execution, command, origin), looked=True)


async def _commit(stores: Stores, execution: Execution, command: Command, origin: Origin) -> Handled:
    commit_id, looked = origin.commit_id or stores.ids.commit_id(), False
    for _ in range(MAX_CONFLICTS):
        verdict, after = decide_and_fold(execution, command)
        if verdict and not isinstance(verdict, Refused):
            ours = _written(stores, command, verdict, commit_id, origin)
            appended = await stores.log.append(execution.execution_id, ours, after=execution.version)
            if isinstance(appended, Stored) and (origin.commit_id is None or not appended.found):
                now = changed(after, version=appended.version)
                return Handled(
                    execution=now, events=verdict, commit_id=commit_id, committed=appended.version, looked=looked
                )
            stores.happened.append_conflicts += isinstance(appended, Conflict)
        newer, looked = await stores.log.read(execution.execution_id, after=execution.version), True
        if not newer:
            return _answer(execution, verdict)
        execution = fold_commits(newer, execution)
        # Ours by whoever carried on with the same request: what they decided counts, not what we would have.
        if found := _found(newer, commit_id):
            return _done(execution, found)
    raise AppendConflict(run_id=execution.execution_id)


async def _may_be_there(execution: Execution, origin: Origin) -> bool:
    """Whether the execution that we know may have our commit in it already. (A new one has nothing in it.)"""
    if origin.resumed:
        return True
    return execution.version > 0 and origin.hold is not None and await origin.hold.overtaken()


def _found(commits: Sequence[StoredCommit], commit_id: CommitId) -> StoredCommit | None:
    return next((stored for stored in commits if stored.commit.commit_id == commit_id), None)


def _done(execution: Execution, found: StoredCommit) -> Handled:
    """What was done by whoever wrote it; the execution may have gone on since."""
    commit = found.commit
    return Handled(
        execution=execution,
        events=commit.events,
        commit_id=commit.commit_id,
        committed=found.sequence,
        looked=True,
    )


def _written(stores: Stores, command: Command, events: Events, commit_id: CommitId, origin: Origin) -> Commit:
    return Commit(
        commit_id=commit_id,
        occurred_at=stores.clock.now(),
        command=type(command).__name__,
        actor=origin.actor,
        events=events,
        correlation_id=origin.correlation_id,
        idempotency_key=origin.idempotency_key,
    )


def _answer(execution: Execution, verdict: Events | Refused) -> Handled:
    if isinstance(verdict, Refused):
        return Handled(execution=execution, refused=verdict, looked=True)
    if not verdict:
        return Handled(execution=execution, looked=True)
    # We wanted to append behind something that the log no longer has: retention removed the run under us.
    raise RunNotFound(run_id=execution.execution_id)
