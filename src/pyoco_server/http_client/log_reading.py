"""How to follow what a run writes until it is over: the logic of both clients, without their I/O."""

from __future__ import annotations

from pyoco_server.http_client import calls
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Script, Sleep, Tell
from pyoco_server.http_client.scripts import send

# Whoever asks waits at the gateway, which answers with the first line; a longer wait saves nothing.
MAX_WAIT_SEC = 20.0
SHORT_WAIT_SEC = 0.5


def follow(connection: Connection, run_id: str, since_token: str | None, tail: int | None) -> Script[None]:
    """Tells every line, those that are there and those that come, until the run is over and all were told."""
    # Well within the time that one try may take.
    wait_sec = min(MAX_WAIT_SEC, connection.timeout_sec / 2)
    while True:
        asked_at = connection.timing.monotonic()
        call = calls.get_run_logs(run_id, since_token, tail=tail, wait_sec=wait_sec)
        page = yield from send(call, connection)
        for item in page["items"]:
            yield Tell(item)
        if page.get("complete"):
            return
        since_token, tail = page["next_token"], None
        if not page["items"] and connection.timing.monotonic() - asked_at < SHORT_WAIT_SEC:
            yield Sleep(SHORT_WAIT_SEC)  # it did not wait: it is about to stop, or does not know how to
