"""A server that speaks the part of Airflow's REST API v2 that we use, with the answers of a real Airflow 3.3.2.

A test plans faults by endpoint, with the names that the metrics have.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE_SEC = 30.0
USER = "admin"
PASSWORD = "correct horse battery"
DAG = "pdca_recheck"

_PATHS = (
    ("login", "POST", re.compile(r"/auth/token")),
    ("health", "GET", re.compile(r"/api/v2/monitor/health")),
    ("dag", "GET", re.compile(r"/api/v2/dags/[^/]+")),
    ("trigger", "POST", re.compile(r"/api/v2/dags/[^/]+/dagRuns")),
    ("states", "GET", re.compile(r"/api/v2/dags/[^/]+/dagRuns")),
    ("run", "GET", re.compile(r"/api/v2/dags/[^/]+/dagRuns/([^/]+)")),
    ("cancel", "PATCH", re.compile(r"/api/v2/dags/[^/]+/dagRuns/([^/]+)")),
    ("tasks", "GET", re.compile(r"/api/v2/dags/[^/]+/dagRuns/([^/]+)/taskInstances")),
    (
        "xcom",
        "GET",
        re.compile(r"/api/v2/dags/[^/]+/dagRuns/([^/]+)/taskInstances/report/xcomEntries/return_value"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """This answer instead of the real one; with `after` the request has its effect all the same."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False


@dataclass(frozen=True)
class Cut:
    """The request has its effect, and the connection is closed without an answer."""


@dataclass(frozen=True)
class Hold:
    """The answer comes when the test says so, or never."""

    until: threading.Event


@dataclass(frozen=True)
class Endless:
    """A body that does not end."""


@dataclass(frozen=True)
class Slow:
    """A body that does not end, byte by byte; with `headers` the headers do not end."""

    headers: bool = False


Fault = Reply | Cut | Hold | Endless | Slow


class AirflowDouble:
    """Its state, which tests read and change, and what was asked of it."""

    def __init__(self) -> None:
        self.url = ""
        self.dag: dict[str, Any] | None = {"dag_id": DAG, "is_paused": False, "is_stale": False}
        self.health: dict[str, Any] = {"metadatabase": {"status": "healthy"}, "scheduler": {"status": "healthy"}}
        self.password = PASSWORD
        self.runs: dict[str, dict[str, Any]] = {}
        self.xcoms: dict[str, Any] = {}
        self.failed_tasks: dict[str, list[str]] = {}
        self.knows_patterns = True
        self.is_away = False
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.most_at_a_time = 0
        self.entered = threading.Semaphore(0)
        self.stopping = threading.Event()
        self._tokens: set[str] = set()
        self._issued = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)

    def plan(self, endpoint: str, *faults: Fault) -> None:
        """The next requests of that endpoint go wrong, one after the other."""
        self._faults[endpoint].extend(faults)

    def forget_tokens(self, status: int) -> None:
        """As with a new signing key (403) or after the life of a token (401)."""
        self._tokens.clear()
        self._unknown_token = status

    _unknown_token = 401

    def asked(self) -> Counter[str]:
        """How often each endpoint was asked."""
        return Counter(endpoint for endpoint, _, _ in self.requests)

    def handle(self, handler: _Handler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        endpoint, run_id = next(
            (name, match[1] if match.re.groups else "")
            for name, method, path in _PATHS
            if method == handler.command and (match := path.fullmatch(parts.path))
        )
        with self._lock:
            self.requests.append((endpoint, handler.path, dict(handler.headers)))
            self._under_way += 1
            self.most_at_a_time = max(self.most_at_a_time, self._under_way)
            fault = self._faults[endpoint].popleft() if self._faults[endpoint] else None
            if self.is_away:
                fault = Reply(status=503)
        self.entered.release()
        try:
            self._answer(handler, fault, endpoint, run_id, parse_qs(parts.query), body)
        finally:
            with self._lock:
                self._under_way -= 1

    def _answer(
        self, handler: _Handler, fault: Fault | None, endpoint: str, run_id: str, query: dict[str, Any], body: bytes
    ) -> None:
        if isinstance(fault, Endless):
            handler.send_endless(self.stopping)
            return
        if isinstance(fault, Slow):
            handler.send_slowly(self.stopping, fault)
            return
        if isinstance(fault, Hold):
            while not fault.until.wait(0.05) and not self.stopping.is_set():
                pass
        if isinstance(fault, Reply) and not fault.after:
            handler.send(fault.status, fault.body, fault.headers)
            return
        with self._lock:
            status, answer = self._effect(handler, endpoint, run_id, query, body)
        if isinstance(fault, Cut):
            handler.close_connection = True
            handler.connection.close()
        elif isinstance(fault, Reply):
            handler.send(fault.status, fault.body, fault.headers)
        else:
            handler.send(status, json.dumps(answer).encode(), {})

    def _effect(
        self, handler: _Handler, endpoint: str, run_id: str, query: dict[str, Any], body: bytes
    ) -> tuple[int, Any]:
        if endpoint == "login":
            return self._login(json.loads(body))
        if handler.headers.get("Authorization", "").removeprefix("Bearer ") not in self._tokens:
            return self._unknown_token, {"detail": "Token Expired"}
        if endpoint == "health":
            return 200, self.health
        if self.dag is None:
            return 404, {"detail": f"The Dag with ID: `{DAG}` was not found"}
        if endpoint == "dag":
            return 200, self.dag
        if endpoint == "trigger":
            return self._trigger(json.loads(body))
        if endpoint == "states":
            return 200, self._listed(query)
        if run_id not in self.runs:
            return 404, {"detail": "The DagRun was not found"}
        return self._about(endpoint, run_id, body)

    def _about(self, endpoint: str, run_id: str, body: bytes) -> tuple[int, Any]:
        if endpoint == "cancel":
            self.runs[run_id]["state"] = json.loads(body)["state"]
        if endpoint == "tasks":
            return 200, {"task_instances": [{"task_id": task} for task in self.failed_tasks.get(run_id, [])]}
        if endpoint != "xcom":
            return 200, self.runs[run_id]
        if run_id not in self.xcoms:
            return 404, {"detail": "XCom entry with key: `return_value` not found"}
        return 200, {"key": "return_value", "value": self.xcoms[run_id]}

    def _login(self, credentials: dict[str, str]) -> tuple[int, Any]:
        if credentials != {"username": USER, "password": self.password}:
            return 401, {"detail": "Invalid credentials"}
        self._issued += 1
        token = f"secret-token-{self._issued}"
        self._tokens.add(token)
        return 201, {"access_token": token}

    def _trigger(self, sent: dict[str, Any]) -> tuple[int, Any]:
        if "logical_date" not in sent:
            return 422, {"detail": [{"type": "missing", "loc": ["body", "logical_date"]}]}
        assert self.dag is not None
        if self.dag.get("has_import_errors"):
            return 400, {"detail": f"Dag with dag_id: '{DAG}' has import errors and cannot be triggered"}
        if sent["dag_run_id"] in self.runs:
            return 409, {"detail": {"reason": "Unique constraint violation"}}
        self.runs[sent["dag_run_id"]] = {"state": "queued", **sent}
        return 200, self.runs[sent["dag_run_id"]]

    def _listed(self, query: dict[str, Any]) -> dict[str, Any]:
        (pattern,) = query["run_id_pattern"]
        found = [run for run_id, run in self.runs.items() if pattern in run_id or not self.knows_patterns]
        return {"dag_runs": found[: int(query["limit"][0])], "total_entries": len(found)}


@contextmanager
def airflow_double(certificate: tuple[Path, Path] | None = None) -> Iterator[AirflowDouble]:
    """With a certificate and its key it speaks https."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        # Handshakes belong to the threads of the connections: one that fails must not stop the server.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    double = AirflowDouble()
    double.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    _Handler.of[server.server_address[1]] = double
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield double
    finally:
        double.stopping.set()
        server.shutdown()
        thread.join(PATIENCE_SEC)
        server.server_close()
        del _Handler.of[server.server_address[1]]


class _Handler(BaseHTTPRequestHandler):
    of: dict[int, AirflowDouble] = {}  # noqa: RUF012  # by port: the server makes a handler per request
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Do not log to the output of the tests."""

    def handle(self) -> None:
        with suppress(ssl.SSLError, ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            self.of[self.connection.getsockname()[1]].handle(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_POST = do_PATCH = do_GET  # noqa: N815  # the names that the library looks for

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_slowly(self, stopping: threading.Event, slow: Slow) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        self.wfile.write(b"X-Endless: " if slow.headers else b'\r\n{"value": "')
        while not stopping.wait(0.01):
            self.wfile.write(b"x" * (4096 if slow.headers else 1))

    def send_endless(self, stopping: threading.Event) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"value": "')
        while not stopping.is_set():
            self.wfile.write(b"x" * 65536)
