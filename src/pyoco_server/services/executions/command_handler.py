"""The write path of executions: load, decide, append with compare-and-set, advance the snapshot.

Nothing else appends. A conflict means that another writer was first: its commits are read and the command is decided
again. No command is refused because of a snapshot alone, since another writer may be between append and advance.

Several attempts of a request with an idempotency key may run at once. All use the same commit id; an attempt that finds
this id in the log has succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide_and_fold
from pyoco_server.domain.execution.events import Commit, Events, StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.errors import AppendConflict, CommandRejected, RunNotFound
from pyoco_server.ports import Conflict, Stored
from pyoco_server.services.context import CommandContext, Stores

# Each conflict is the success of another writer, so many in a row mean contention, not a fault.
MAX_CONFLICTS = 64


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command: the present execution, our events (none: nothing had to change), or a refusal.

    `commit_id` and `sequence` are those of our events' commit; a continued request finds it behind later commits.
    `looked`: the log was read, so the execution may contain commits of others.
    """

    execution: Execution
    events: Events = ()
    refused: Rejection | None = None
    commit_id: CommitId | None = None
    sequence: int | None = None
    looked: bool = False

    @property
    def version(self) -> int:
        """The version that our events made, however late it is read; without events, the present one."""
        return self.execution.version if self.sequence is None else self.sequence

    def accepted(self) -> Execution:
        """The execution, or the refusal as an error."""
        if self.refused is None:
            return self.execution
        if self.refused.why is RejectionReason.NOT_FOUND:
            raise RunNotFound(run_id=self.execution.execution_id)
        raise CommandRejected(self.refused.detail, why=self.refused.why.name, run_id=self.execution.execution_id)


async def handle(stores: Stores, run_id: RunId, command: Command, context: CommandContext) -> CommandResult:
    """Carry out a command on a run; when it returns, events and snapshot both have it."""
    loaded = await stores.snapshots.load(run_id)
    known = loaded.execution if loaded else empty_execution(run_id)
    result = await commit(stores, known, command, context)
    if result.execution.version > known.version:
        await stores.snapshots.advance(result.execution, known=loaded, create=loaded is None)
    return result


async def read_execution(stores: Stores, run_id: RunId, known: Execution | None = None) -> Execution:
    """The execution as its events say now, read behind a known state (None: behind its snapshot)."""
    if known is None:
        loaded = await stores.snapshots.load(run_id)
        known = loaded.execution if loaded else empty_execution(run_id)
    return fold_commits(await stores.events.read(run_id, after=known.version), known)


async def commit(
    stores: Stores, execution: Execution, command: Command, context: CommandContext, *, is_new: bool = False
) -> CommandResult:
    """Decide and append, starting from a known execution; the caller writes the snapshot.

    `is_new`: the execution is known not to contain the commit of this context. Raises `RunNotFound` when the execution
    belongs to a tenant that the context may not see.
    """
    if not is_new and await _may_contain_ours(execution, context):
        result = await _continue(stores, execution, command, context)
    else:
        result = await _commit(stores, execution, command, context)
    if context.hold is not None and result.commit_id is not None:
        context.hold.emitted(result.commit_id, len(result.events))
    return result


async def _continue(stores: Stores, execution: Execution, command: Command, context: CommandContext) -> CommandResult:
    commits = await stores.events.read(execution.execution_id)
    execution = fold_commits(commits, empty_execution(execution.execution_id))
    _check_tenant(execution, context)
    if context.commit_id is not None and (found := _found(commits, context.commit_id)):
        return _continued_result(execution, found)
    return replace(await _commit(stores, execution, command, context), looked=True)


async def _commit(stores: Stores, execution: Execution, command: Command, context: CommandContext) -> CommandResult:
    commit_id, looked = context.commit_id or stores.ids.commit_id(), False
    for _ in range(MAX_CONFLICTS):
        _check_tenant(execution, context)
        verdict, after = decide_and_fold(execution, command)
        if verdict and not isinstance(verdict, Rejection):
            ours = _new_commit(stores, command, verdict, commit_id, context)
            appended = await stores.events.append(execution.execution_id, ours, after=execution.version)
            if isinstance(appended, Stored) and (context.commit_id is None or not appended.found):
                now = replace(after, version=appended.version)
                return CommandResult(
                    execution=now, events=verdict, commit_id=commit_id, sequence=appended.version, looked=looked
                )
            stores.counters.append_conflicts += isinstance(appended, Conflict)
        newer, looked = await stores.events.read(execution.execution_id, after=execution.version), True
        if not newer:
            return _unchanged(execution, verdict)
        execution = fold_commits(newer, execution)
        # Another attempt of the same request was first: its decision counts.
        if found := _found(newer, commit_id):
            return _continued_result(execution, found)
    raise AppendConflict(run_id=execution.execution_id)


def _check_tenant(execution: Execution, context: CommandContext) -> None:
    if context.tenant_filter not in (None, execution.request.tenant_id) and execution.exists:
        raise RunNotFound(run_id=execution.execution_id)


async def _may_contain_ours(execution: Execution, context: CommandContext) -> bool:
    """Whether the known execution may already contain our commit."""
    if context.resumed:
        return True
    return execution.version > 0 and context.hold is not None and await context.hold.overtaken()


def _found(commits: Sequence[StoredCommit], commit_id: CommitId) -> StoredCommit | None:
    return next((stored for stored in commits if stored.commit.commit_id == commit_id), None)


def _continued_result(execution: Execution, found: StoredCommit) -> CommandResult:
    ours = found.commit
    return CommandResult(
        execution=execution, events=ours.events, commit_id=ours.commit_id, sequence=found.sequence, looked=True
    )


def _new_commit(
    stores: Stores, command: Command, events: Events, commit_id: CommitId, context: CommandContext
) -> Commit:
    return Commit(
        commit_id=commit_id,
        occurred_at=stores.clock.now(),
        command=type(command).__name__,
        actor=context.actor,
        events=events,
        correlation_id=context.correlation_id,
        idempotency_key=context.idempotency_key,
        request_id=context.request_id,
        address=context.address,
    )


def _unchanged(execution: Execution, verdict: Events | Rejection) -> CommandResult:
    if isinstance(verdict, Rejection):
        return CommandResult(execution=execution, refused=verdict, looked=True)
    if not verdict:
        return CommandResult(execution=execution, looked=True)
    # Retention has removed the run meanwhile, with the commit to append behind.
    raise RunNotFound(run_id=execution.execution_id)
