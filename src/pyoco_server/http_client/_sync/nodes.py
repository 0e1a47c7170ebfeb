# Generated from _async/nodes.py by scripts/unasync. Do not edit.
"""Methods for nodes, waits and graphs: claim a node, report on it, answer a wait, store a graph."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from pyoco_server.http_client._sync.base import Methods
from pyoco_server.http_client.models.executions import (
    Claim,
    CommandAccepted,
    GraphDocument,
    GraphPage,
    GraphSummary,
    WaitingNode,
    WaitPage,
)
from pyoco_server.http_client.requests import (
    Request,
    change,
    execution_path,
    get,
    json_body,
    name_path,
    read_optional_object,
    read_page,
    to_query,
    to_strings,
    yaml_body,
)

Document = Mapping[str, Any] | str | bytes


class NodeMethods(Methods):
    """`attempt` says which start of the node is meant, so that a late command cannot affect a later attempt."""

    def claim_node(
        self,
        graph_ids: Iterable[str],
        worker_id: str,
        wait_sec: float = 20.0,
        lease_sec: float = 60.0,
        *,
        idempotency_key: str | None = None,
    ) -> Claim | None:
        """Claim the next READY node of these graphs, waiting up to `wait_sec` (30 at most) for one; else None.

        `report_progress` renews the lease; after its expiry another worker can claim the node.
        """
        body = {"graphIds": to_strings(graph_ids), "workerId": worker_id, "waitSec": wait_sec, "leaseSec": lease_sec}
        return self._transport.send(
            change("POST", "/executions:claim", idempotency_key, body, read=read_optional_object, hold_sec=wait_sec)
        )

    def start_node(
        self,
        execution_id: str,
        node_id: str,
        attempt: int | None = None,
        worker_id: str | None = None,
        lease_sec: float | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """Claim this node. In an open graph this creates the node."""
        body = {"attempt": attempt, "workerId": worker_id, "leaseSec": lease_sec}
        return self._node_command(execution_id, node_id, "start", idempotency_key, body)

    def report_progress(
        self,
        execution_id: str,
        node_id: str,
        progress: float | None = None,
        message: str | None = None,
        attempt: int | None = None,
        lease_sec: float | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """Report the progress of a node in percent, and renew its lease. Conflict: the node was lost or must stop."""
        body = {"progress": progress, "message": message, "attempt": attempt, "leaseSec": lease_sec}
        return self._node_command(execution_id, node_id, "progress", idempotency_key, body)

    def put_waiting(
        self,
        execution_id: str,
        node_id: str,
        wait_key: str,
        prompt: Any = None,
        timeout_sec: float | None = None,
        attempt: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """Let the node wait until it is resumed with the key; `prompt` is the question for people, any JSON.

        If the prompt is an object with a list `choices`, the answer must be one of them.
        """
        body = {"waitKey": wait_key, "prompt": prompt, "timeoutSec": timeout_sec, "attempt": attempt}
        return self._node_command(execution_id, node_id, "wait", idempotency_key, body)

    def resume_node(
        self,
        execution_id: str,
        node_id: str,
        resume_key: str,
        answer: Any = None,
        attempt: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """Resume a waiting node with its key. A wait node of a graph succeeds by it.

        To a prompt with choices, `answer` is one of them, or a mapping with it as `choice`; otherwise InvalidRequest.
        """
        body = {"resumeKey": resume_key, "answer": answer, "attempt": attempt}
        return self._node_command(execution_id, node_id, "resume", idempotency_key, body)

    def succeed_node(
        self,
        execution_id: str,
        node_id: str,
        output: Any = None,
        attempt: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """End a node with success; `output` is any JSON, an input of the following nodes."""
        body = {"output": output, "attempt": attempt}
        return self._node_command(execution_id, node_id, "success", idempotency_key, body)

    def fail_node(
        self,
        execution_id: str,
        node_id: str,
        code: str,
        message: str,
        attempt: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """End a node, also a waiting one, without success. A stored graph fails with it."""
        body = {"error": {"code": code, "message": message}, "attempt": attempt}
        return self._node_command(execution_id, node_id, "fail", idempotency_key, body)

    def list_waits(
        self,
        graph_id: str | None = None,
        execution_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> WaitPage:
        """One page of waiting nodes with prompt and key, the longest waiting first."""
        return self._transport.send(
            get("/waits", read=read_page(), graphId=graph_id, executionId=execution_id, limit=limit, cursor=cursor)
        )

    def iter_waits(
        self, graph_id: str | None = None, execution_id: str | None = None, limit: int | None = None
    ) -> Generator[WaitingNode, None, None]:
        """All waiting nodes, in pages of `limit`."""
        request: Request[Any] = get("/waits", read=read_page(), graphId=graph_id, executionId=execution_id, limit=limit)
        return self._transport.pages(request, "cursor", "nextCursor")

    def put_graph(
        self,
        graph_id: str,
        document: Document,
        expected_version: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> GraphDocument:
        """Store a graph under this name: a mapping, or the text of a YAML file. A change is a new version.

        Conflict unless `expected_version` is the current one; 0 requires that there is none yet.
        """
        path, query = name_path("/graphs", "graph_id", graph_id), to_query(expectedVersion=expected_version)
        content = json_body(document) if isinstance(document, Mapping) else yaml_body(document)
        return self._transport.send(change("PUT", path, idempotency_key, query=query, **content))

    def get_graph(self, graph_id: str) -> GraphDocument:
        """The current version of a graph, or a flow that workers announce."""
        return self._transport.send(get(name_path("/graphs", "graph_id", graph_id)))

    def list_graphs(self, q: str | None = None, limit: int | None = None, cursor: str | None = None) -> GraphPage:
        """One page of graphs and announced flows, by id; `q` is a prefix of the id."""
        return self._transport.send(get("/graphs", read=read_page(), q=q, limit=limit, cursor=cursor))

    def iter_graphs(self, q: str | None = None, limit: int | None = None) -> Generator[GraphSummary, None, None]:
        """All graphs and announced flows, in pages of `limit`."""
        return self._transport.pages(get("/graphs", read=read_page(), q=q, limit=limit), "cursor", "nextCursor")

    def _node_command(
        self, execution_id: str, node_id: str, name: str, idempotency_key: str | None, body: Mapping[str, Any]
    ) -> CommandAccepted:
        path = f"{name_path(f'{execution_path(execution_id)}/nodes', 'node_id', node_id)}/{name}"
        return self._transport.send(change("POST", path, idempotency_key, body))
