"""A worker for the nodes of graphs: claims one node at a time, calls its handler and reports the result.

While a handler runs, a thread renews the lease. Requests that a restarting gateway did not answer are repeated with the
same key, so that each takes effect once. Run several loops, in threads or processes, for several nodes at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pyoco_server.http_client._sync.client import PyocoHttpClient
from pyoco_server.http_client.errors import (
    Conflict,
    GatewayUnreachable,
    InvalidRequest,
    NotFound,
    TooLarge,
    Unavailable,
)
from pyoco_server.http_client.models.executions import Claim
from pyoco_server.http_client.requests import new_key

T = TypeVar("T")

PAUSE_SEC = 1.0
MAX_MESSAGE_CHARS = 10_000
_UNAVAILABLE = (GatewayUnreachable, Unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """The node of a handler; `lost` is set when the handler must stop: the node was cancelled or claimed again."""

    client: PyocoHttpClient
    claim: Claim
    lost: threading.Event = field(default_factory=threading.Event)

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Report progress, which also renews the lease. An unreachable gateway is ignored."""
        claim = self.claim
        try:
            self.client.report_progress(
                claim["executionId"], claim["nodeId"], percent, message, claim["attempt"], claim["leaseSec"]
            )
        except (Conflict, NotFound):
            self.lost.set()
        except _UNAVAILABLE:
            return


Handler = Callable[[HeldNode], Any]


def work(
    client: PyocoHttpClient,
    graph_ids: Iterable[str],
    worker_id: str,
    handlers: Mapping[str, Handler],
    stop: threading.Event,
    *,
    wait_sec: float = 10.0,
    lease_sec: float = 60.0,
) -> None:
    """Claim and process nodes of these graphs until `stop` is set, which takes effect between nodes within `wait_sec`.

    `handlers` has a function per node id. Its result is the node's output; an exception fails the node, and so does a
    missing handler. A handler should check `lost` regularly: once it is set, the result is discarded.
    """
    graphs = list(graph_ids)
    while not stop.is_set():
        asked_at = time.monotonic()
        ask = partial(client.claim_node, graphs, worker_id, wait_sec, lease_sec, idempotency_key=new_key())
        claim = _until_answered(ask, stop)
        if claim is None:
            # A gateway that shuts down, or a proxy, may answer without waiting.
            stop.wait(max(0.0, PAUSE_SEC - (time.monotonic() - asked_at)))
            continue
        node = HeldNode(client=client, claim=claim)
        with _renewed(node):
            _do(node, handlers.get(claim["nodeId"]), stop)


def _do(node: HeldNode, handler: Handler | None, stop: threading.Event) -> None:
    claim = node.claim
    execution_id, node_id, attempt = claim["executionId"], claim["nodeId"], claim["attempt"]
    client = node.client

    def fail(code: str, message: str) -> None:
        text = message[:MAX_MESSAGE_CHARS]
        _report(
            partial(client.fail_node, execution_id, node_id, code[:128], text, attempt, idempotency_key=new_key()), stop
        )

    if handler is None:
        fail("NO_HANDLER", f"this worker has no handler for {node_id}")
        return
    try:
        output = handler(node)
    except Exception as error:  # noqa: BLE001  # around the user's handler
        fail(type(error).__name__, str(error))
        return
    try:
        _report(partial(client.succeed_node, execution_id, node_id, output, attempt, idempotency_key=new_key()), stop)
    except (TypeError, ValueError, RecursionError, InvalidRequest, TooLarge) as error:
        fail("OUTPUT_NOT_ACCEPTED", str(error))


def _report(send: Callable[[], Any], stop: threading.Event) -> None:
    """Send a result. A rejection is expected after a cancel or a take-over."""
    with suppress(Conflict, NotFound):
        _until_answered(send, stop)


def _until_answered(send: Callable[[], T], stop: threading.Event) -> T | None:
    """The answer; None if the gateway is unreachable and the worker is to stop."""
    while True:
        try:
            return send()
        except _UNAVAILABLE:
            if stop.wait(PAUSE_SEC):
                return None


@contextmanager
def _renewed(node: HeldNode) -> Iterator[None]:
    """Renews the lease until the block ends or the node is lost."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(node.claim["leaseSec"] / 3) and not node.lost.is_set():
            node.progress()

    thread = threading.Thread(target=renew, name=f"lease of {node.claim['nodeId']}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
