"""Run an earlier run again: a new run with the same flow, params, tag, labels and YAML, for the same tenant."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from pyoco_server.domain.execution.commands import CreateExecution
from pyoco_server.domain.execution.events import Commit, ExecutionCreated, NodeCreated, declared_edges
from pyoco_server.domain.execution.state import Execution, Request, Work
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.errors import InvalidRequest, RunNotFound
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.executions.submit import first_commit
from pyoco_server.services.idempotency import IdempotentAttempt

logger = logging.getLogger(__name__)

MAX_NAMED = 50
# Its strategies, filter and scopes are checked there, and its answer is a `request_id`.
NOT_A_REQUEST = (
    "a request of the PDCA API is not run again: send it to /pdca/recheck or /pdca/recheck_all with a new key"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunService:
    """Reruns of any run. The original stays as it is, and may have ended or not."""

    executions: ExecutionService

    async def prepare(
        self, run_id: RunId, params: Mapping[str, Any], *, tenant_filter: str | None, api_key_id: str | None
    ) -> CreateExecution:
        """The command of a rerun with these params in place of the original ones; stores nothing.

        `RunNotFound` for runs of other tenants and for those that retention has removed; `InvalidRequest` for a request
        of the PDCA API.
        """
        stores = self.executions.stores
        first = await first_commit(stores.events, run_id)
        created = None if first is None else created_in(first.commit)
        if first is None or created is None or tenant_filter not in (None, created.request.tenant_id):
            raise RunNotFound(run_id=run_id)
        original = created.request
        if original.flow_name == REQUEST_FLOW and created.node_inputs is not None:
            raise InvalidRequest(NOT_A_REQUEST)
        if original.workflow_yaml_sha256 is not None:
            _check_names(params, original.input)
        # Of the two kinds that workers run, a rerun is never started by hand.
        work = Work.NODES if original.work is Work.NODES else Work.QUEUED
        request = replace(
            original,
            input={**original.input, **params},
            api_key_id=api_key_id,
            replay_of=None,
            rerun_of=run_id,
            work=work,
        )
        return create_again(first.commit, request, created.labels, at=stores.clock.now())

    async def run(self, create: CreateExecution, attempt: IdempotentAttempt) -> Execution:
        """Submit it; nodes that are claimed one by one are started at once."""
        run_id = RunId(attempt.resource_id)
        if create.request.work is Work.NODES:
            again = await self.executions.create_and_start(create, run_id, attempt.context)
        else:
            again = await self.executions.submit_command(create, attempt.context, run_id=run_id)
        logger.info("run again", extra={"run_id": again.execution_id, "rerun_of": create.request.rerun_of})
        return again


def create_again(first: Commit, request: Request, labels: Sequence[str], *, at: float) -> CreateExecution:
    """The command that creates what this first commit created, with this request and these labels."""
    created = created_in(first)
    graph = None if created is None else created.graph
    return CreateExecution(
        at=at,
        request=request,
        labels=tuple(labels),
        graph=graph,
        node_ids=() if graph else tuple(event.node_id for event in first.events if isinstance(event, NodeCreated)),
        edges=() if graph else declared_edges([first]),
        workflow_yaml=None if created is None else created.workflow_yaml,
        node_inputs=None if created is None else created.node_inputs,
    )


def created_in(first: Commit) -> ExecutionCreated | None:
    """The event that created the execution, which its first commit has."""
    return next((event for event in first.events if isinstance(event, ExecutionCreated)), None)


def _check_names(params: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """A file has all of its parameters in its defaults: any other name is a mistake."""
    for name in params:
        if name not in known:
            names = ", ".join(list(known)[:MAX_NAMED]) or "none"
            raise InvalidRequest(f"params: {name[:60]!r} is not a parameter of the file of this run, which has {names}")
