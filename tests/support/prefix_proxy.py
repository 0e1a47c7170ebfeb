"""A reverse proxy that serves a gateway below a path prefix, which it removes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

# Of the connection and not of the message; httpx and the handler write their own.
NOT_PASSED = {"connection", "host", "keep-alive", "transfer-encoding", "server", "date"}


@contextmanager
def prefix_proxy(target: str, prefix: str) -> Iterator[str]:
    """Its address with the prefix; other paths are not found."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED}
            with client.stream("GET", self.path.removeprefix(prefix), headers=headers) as answer:
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name not in NOT_PASSED:
                        self.send_header(name, value)
                self.end_headers()
                for chunk in answer.iter_raw():
                    self.wfile.write(chunk)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with httpx.Client(base_url=target, timeout=60.0) as client:
        serving = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{prefix}"
        finally:
            server.shutdown()
            server.server_close()
            serving.join()
