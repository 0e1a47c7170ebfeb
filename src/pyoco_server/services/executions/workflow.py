"""The flow.yaml of a run: what is kept of it where, and how to get it back. The text stands in the log and in the job.

A snapshot has only its size and its hash, which tell whether a text at hand is the one that was submitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from pyoco_server.domain.execution.events import Commit, ExecutionCreated
from pyoco_server.domain.execution.state import Execution, Request
from pyoco_server.domain.flow_yaml.document import FlowFile
from pyoco_server.domain.ids import RunId
from pyoco_server.stores import EventLog


@dataclass(frozen=True, slots=True)
class Workflow:
    """A flow.yaml that was read: its text, and the flow in it."""

    text: str
    flow: FlowFile

    def stamped(self, request: Request) -> Request:
        """The request with what a snapshot keeps of the file."""
        data = self.text.encode()
        return replace(request, workflow_yaml_sha256=sha256(data).hexdigest(), workflow_yaml_bytes=len(data))


def is_the_text_of(execution: Execution, text: str | None) -> bool:
    """Whether this is the text that the run was submitted with."""
    return text is not None and sha256(text.encode()).hexdigest() == execution.request.workflow_yaml_sha256


async def workflow_text(log: EventLog, execution: Execution) -> str | None:
    """The text that the run was submitted with, from its first commit; None for a run of a flow that workers know."""
    if execution.request.workflow_yaml_sha256 is None:
        return None
    first = await first_commit(log, execution.execution_id)
    return None if first is None else workflow_in(first)


async def first_commit(log: EventLog, run_id: RunId) -> Commit | None:
    """The commit that brought the run into being; None when retention has taken it."""
    commits = await log.read(run_id)
    return commits[0].commit if commits else None


def workflow_in(first: Commit) -> str | None:
    """The text in a run's first commit."""
    return next((event.workflow_yaml for event in first.events if isinstance(event, ExecutionCreated)), None)
