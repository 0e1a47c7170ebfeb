"""The benchmark ends the processes that it starts, and counts the requests that it sends."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bench.load import post_count
from bench.processes import Child

from support.processes import descendants_of


class EveryThirdRefused(BaseHTTPRequestHandler):
    """Responds to POST on a kept-alive connection, every third time with a 503."""

    protocol_version = "HTTP/1.1"
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(503 if len(self.bodies) % 3 == 0 else 200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Do not log."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    EveryThirdRefused.bodies = []
    with ThreadingHTTPServer(("127.0.0.1", 0), EveryThirdRefused) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join(5)


def test_the_load_client_posts_the_given_count_and_reports_rejections(server: ThreadingHTTPServer) -> None:
    load = post_count(server.server_port, "/runs", b'{"x":1}', connections=2, count=30)

    assert (load.requests, load.failed) == (30, 10)
    assert EveryThirdRefused.bodies == [b'{"x":1}'] * 30


def test_stopping_a_child_kills_and_reports_leftover_processes(tmp_path: Path) -> None:
    child = Child("parent", ["sh", "-c", "sleep 60 & wait"], cwd=tmp_path)
    while not any(one.name() == "sleep" for one in descendants_of(child.pid)):
        child.require_alive()

    messages = child.stop()

    assert messages == ["parent left a process behind: sleep"]
