"""A worker for the nodes of graphs, as one loop: claim, work, say how it went. It works on one node at a time.

While a handler runs a thread renews the lease. Whatever a restarting gateway did not answer is said again with the same
key, so that a claim is one node and an end one end. Several nodes at a time are several loops, in threads or processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyoco_server.http_client.call_parts import new_key
from pyoco_server.http_client.client import PyocoHttpClient
from pyoco_server.http_client.errors import (
    Conflict,
    GatewayUnreachable,
    InvalidRequest,
    NotFound,
    TooLarge,
    Unavailable,
)
from pyoco_server.http_client.execution_shapes import Claim

T = TypeVar("T")

PAUSE_SEC = 1.0
MAX_MESSAGE_CHARS = 10_000
_AWAY = (GatewayUnreachable, Unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """A node in the hands of a handler; `lost` is set when it is to stop: cancelled, or taken over by another."""

    client: PyocoHttpClient
    claim: Claim
    lost: threading.Event = field(default_factory=threading.Event)

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Say how far it is, which renews the lease, too. A gateway that is away does not hear it: no harm done."""
        claim = self.claim
        try:
            self.client.report_progress(
                claim["executionId"], claim["nodeId"], percent, message, claim["attempt"], claim["leaseSec"]
            )
        except (Conflict, NotFound):
            self.lost.set()
        except _AWAY:
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
    """Take nodes of these graphs until `stop` is set, which is heeded between nodes and within `wait_sec`.

    `handlers` has a function per node id. What it returns is the node's output; what it raises is why the node fails,
    and so does a node that has none. It should look at `lost` now and then: after that nobody wants its result.
    """
    graphs = list(graph_ids)
    while not stop.is_set():
        asked_at = time.monotonic()
        claim = _claim(client, graphs, worker_id, wait_sec, lease_sec, stop)
        if claim is None:
            # It may not have waited: it is about to stop, or there is somebody else in between.
            stop.wait(max(0.0, PAUSE_SEC - (time.monotonic() - asked_at)))
            continue
        node = HeldNode(client=client, claim=claim)
        with _renewed(node):
            _do(node, handlers.get(claim["nodeId"]), stop)


def _claim(
    client: PyocoHttpClient,
    graphs: list[str],
    worker_id: str,
    wait_sec: float,
    lease_sec: float,
    stop: threading.Event,
) -> Claim | None:
    key = new_key()
    return _until_answered(lambda: client.claim_node(graphs, worker_id, wait_sec, lease_sec, idempotency_key=key), stop)


def _do(node: HeldNode, handler: Handler | None, stop: threading.Event) -> None:
    if handler is None:
        _fail(node, "NO_HANDLER", f"this worker has no handler for {node.claim['nodeId']}", stop)
        return
    try:
        output = handler(node)
    except Exception as error:  # noqa: BLE001  # around the user's handler
        _fail(node, type(error).__name__, str(error), stop)
        return
    try:
        _succeed(node, output, stop)
    except (TypeError, ValueError, RecursionError, InvalidRequest, TooLarge) as error:
        _fail(node, "OUTPUT_NOT_ACCEPTED", str(error), stop)


def _succeed(node: HeldNode, output: Any, stop: threading.Event) -> None:
    claim, key = node.claim, new_key()
    _said(
        lambda: node.client.succeed_node(
            claim["executionId"], claim["nodeId"], output, claim["attempt"], idempotency_key=key
        ),
        stop,
    )


def _fail(node: HeldNode, code: str, message: str, stop: threading.Event) -> None:
    claim, key, told = node.claim, new_key(), message[:MAX_MESSAGE_CHARS]
    _said(
        lambda: node.client.fail_node(
            claim["executionId"], claim["nodeId"], code[:128], told, claim["attempt"], idempotency_key=key
        ),
        stop,
    )


def _said(ask: Callable[[], Any], stop: threading.Event) -> None:
    """Say it. A refusal is no fault: after a cancel it says that we have stopped, after a take-over that it is late."""
    try:
        _until_answered(ask, stop)
    except (Conflict, NotFound):
        return


def _until_answered(ask: Callable[[], T], stop: threading.Event) -> T | None:
    """What is answered; None when nobody answers and the worker is to end."""
    while True:
        try:
            return ask()
        except _AWAY:
            if stop.wait(PAUSE_SEC):
                return None


@contextmanager
def _renewed(node: HeldNode) -> Iterator[None]:
    """The lease is renewed for as long as the block lasts, or until the node is lost."""
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
