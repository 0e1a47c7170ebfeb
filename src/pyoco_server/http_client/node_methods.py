"""What can be asked about nodes, waits and graphs, as blocking methods; what they do stands in the scripts."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from pyoco_server.http_client import execution_calls as calls
from pyoco_server.http_client.asking import Asker
from pyoco_server.http_client.execution_calls import Document
from pyoco_server.http_client.execution_shapes import (
    Claim,
    CommandAccepted,
    GraphDocument,
    GraphPage,
    GraphSummary,
    WaitingNode,
    WaitPage,
)


class NodeMethods(Asker):
    """Nodes: take them, say how they go; what waits for a person; and the graphs that they are of.

    `attempt` says which start of the node is meant. Whoever names his own cannot be taken for the one after him.
    """

    def claim_node(
        self,
        graph_ids: Iterable[str],
        worker_id: str,
        wait_sec: float = 20.0,
        lease_sec: float = 60.0,
        *,
        idempotency_key: str | None = None,
    ) -> Claim | None:
        """Take the next READY node of these graphs, waiting up to `wait_sec` (30 at most) for one; else None.

        `report_progress` renews the lease; whoever is silent for longer loses the node to the next one.
        """
        from pyoco_server.http_client import execution_scripts

        return self._run(
            execution_scripts.claim(self._connection, graph_ids, worker_id, wait_sec, lease_sec, idempotency_key)
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
        """Take this node. In an open graph it need not have been heard of before."""
        said = {"attempt": attempt, "workerId": worker_id, "leaseSec": lease_sec}
        return self._send(calls.node_command(execution_id, node_id, "start", idempotency_key, **said))

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
        """Say how far the node is, in percent, and renew its lease. Conflict: it is no longer yours, or is to stop."""
        said = {"progress": progress, "message": message, "attempt": attempt, "leaseSec": lease_sec}
        return self._send(calls.node_command(execution_id, node_id, "progress", idempotency_key, **said))

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
        """Let the node wait for somebody who knows the key; `prompt` is what people are asked, any JSON."""
        said = {"waitKey": wait_key, "prompt": prompt, "timeoutSec": timeout_sec, "attempt": attempt}
        return self._send(calls.node_command(execution_id, node_id, "wait", idempotency_key, **said))

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
        """Show the key of a waiting node and let it go on. With a wait node of a graph that is its success."""
        said = {"resumeKey": resume_key, "answer": answer, "attempt": attempt}
        return self._send(calls.node_command(execution_id, node_id, "resume", idempotency_key, **said))

    def succeed_node(
        self,
        execution_id: str,
        node_id: str,
        output: Any = None,
        attempt: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """End a node with success; `output` is any JSON, for the nodes behind it."""
        said = {"output": output, "attempt": attempt}
        return self._send(calls.node_command(execution_id, node_id, "success", idempotency_key, **said))

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
        """Give a node up, also a waiting one. A known graph fails with it."""
        said = {"error": calls.error_body(code, message), "attempt": attempt}
        return self._send(calls.node_command(execution_id, node_id, "fail", idempotency_key, **said))

    def list_waits(
        self,
        graph_id: str | None = None,
        execution_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> WaitPage:
        """One page of the nodes that wait for somebody, with prompt and key, the longest waiting first."""
        return self._send(calls.list_waits(graphId=graph_id, executionId=execution_id, limit=limit, cursor=cursor))

    def iter_waits(
        self, graph_id: str | None = None, execution_id: str | None = None, limit: int | None = None
    ) -> Generator[WaitingNode, None, None]:
        """All nodes that wait for somebody, page after page of `limit` each."""
        from pyoco_server.http_client import execution_scripts

        return self._tell(
            execution_scripts.all_waits(self._connection, graphId=graph_id, executionId=execution_id, limit=limit)
        )

    def put_graph(
        self,
        graph_id: str,
        document: Document,
        expected_version: int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> GraphDocument:
        """Keep a graph under this name: a mapping, or the text of a YAML file. A change is a new version.

        Conflict unless `expected_version` is the present one; 0: unless there is none yet.
        """
        return self._send(calls.put_graph(graph_id, document, expected_version, idempotency_key))

    def get_graph(self, graph_id: str) -> GraphDocument:
        """A graph in its present version, or a flow that workers announce."""
        return self._send(calls.get_graph(graph_id))

    def list_graphs(self, q: str | None = None, limit: int | None = None, cursor: str | None = None) -> GraphPage:
        """One page of graphs and announced flows, by id; `q` is how an id begins."""
        return self._send(calls.list_graphs(q=q, limit=limit, cursor=cursor))

    def iter_graphs(self, q: str | None = None, limit: int | None = None) -> Generator[GraphSummary, None, None]:
        """All graphs and announced flows, page after page of `limit` each."""
        from pyoco_server.http_client import execution_scripts

        return self._tell(execution_scripts.all_graphs(self._connection, q=q, limit=limit))
