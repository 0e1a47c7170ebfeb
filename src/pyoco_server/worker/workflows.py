"""The flow.yaml that a job brings: whether it may be run, and which text is meant. It imports none of it."""

from __future__ import annotations

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.flow_yaml.document import patterns_of, read_flow_file
from pyoco_server.errors import InvalidJob, InvalidRequest, WorkflowTooLarge
from pyoco_server.ports import EventLog, Job
from pyoco_server.services.executions.workflow import Workflow, is_the_text_of, workflow_text


def foreign_workflow(job: Job, config: NatsBackendConfig) -> Workflow:
    """The flow.yaml in a foreign producer's job; refused as a gateway would refuse it."""
    text = job.workflow_yaml or ""
    allowed = patterns_of(config.callable_allow)
    try:
        flow = read_flow_file(text.encode(), max_bytes=config.workflow_yaml_max_bytes, allowed=allowed)
    except (InvalidRequest, WorkflowTooLarge) as error:
        raise InvalidJob(error.detail, run_id=job.run_id, flow_name=job.flow_name) from error
    return Workflow(text, flow)


async def text_to_run(log: EventLog, execution: Execution, job: Job) -> str | None:
    """The text that the run was submitted with: the job's, if it is the same, else the log's. None: no flow.yaml."""
    if execution.request.workflow_yaml_sha256 is None:
        return None
    if is_the_text_of(execution, job.workflow_yaml):
        return job.workflow_yaml
    text = await workflow_text(log, execution)
    if text is None:
        raise InvalidJob("the flow.yaml of the run is not in its log", run_id=job.run_id, flow_name=job.flow_name)
    return text
