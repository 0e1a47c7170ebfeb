"""Readers of a job's log who do not give up: by the SDK, and on a WebSocket, whatever is killed under them."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import orjson
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from pyoco_server.http_client import PyocoHttpClient

PATIENCE_SEC = 60.0
BREATH_SEC = 0.05

Entry = dict[str, Any]


class Follower(ABC):
    """A thread that follows one log to its end, and what it was told."""

    def __init__(self, job_id: str, addresses: Sequence[str]) -> None:
        self.job_id = job_id
        self.addresses = addresses
        self.heard: list[Entry] = []
        self.status: str | None = None
        self.cuts = 0
        self._failure: BaseException | None = None
        self._given_up = threading.Event()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Return when so many lines were heard."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.heard) >= count or self._over, PATIENCE_SEC), self._shown()
            assert len(self.heard) >= count, self._shown()

    def ended(self) -> str:
        """How the job ended, once it has and every line was heard."""
        self._thread.join(PATIENCE_SEC)
        assert self.status is not None, self._shown()
        return self.status

    def give_up(self) -> None:
        self._given_up.set()

    @abstractmethod
    def follow(self) -> None:
        """Hear lines until the end is told."""

    def tell(self, entries: Sequence[Entry]) -> None:
        if self._given_up.is_set():
            raise SystemExit
        with self._news:
            self.heard += entries
            self._news.notify_all()

    def breathe(self) -> None:
        """The connection was cut; whoever is being started again needs a moment."""
        self.cuts += 1
        if self._given_up.wait(BREATH_SEC):
            raise SystemExit

    @property
    def _over(self) -> bool:
        return self.status is not None or self._failure is not None

    def _run(self) -> None:
        try:
            self.follow()
        except Exception as failure:  # noqa: BLE001  # told by whoever waits for the lines
            self._failure = failure
        with self._news:
            self._news.notify_all()

    def _shown(self) -> str:
        return f"{self!r} of {self.job_id}: {len(self.heard)} lines, {self.cuts} cuts, {self._failure!r}"


class SdkFollower(Follower):
    """As a program does it: the SDK makes lost connections again, always to the same address."""

    def follow(self) -> None:
        with (
            PyocoHttpClient(self.addresses[0], retry_within_sec=PATIENCE_SEC, retries=1000) as client,
            client.follow_job_logs(self.job_id) as lines,
        ):
            for line in lines:
                self.tell([dict(line)])
        self.status = lines.status


class SocketFollower(Follower):
    """By hand: whenever it is cut, it goes on at another gateway with the last token that it was given."""

    def follow(self) -> None:
        query: dict[str, str] = {}
        until = time.monotonic() + PATIENCE_SEC
        while time.monotonic() < until:
            address = self.addresses[self.cuts % len(self.addresses)].replace("http", "ws", 1)
            try:
                with connect(f"{address}/jobs/{self.job_id}/ws?{urlencode(query)}", proxy=None) as socket:
                    for said in socket:
                        frame = orjson.loads(said)
                        if frame["type"] == "log":
                            self.tell(frame["entries"])
                            query = {"sinceToken": frame["nextToken"]}
                        elif frame["type"] == "end":
                            self.status = frame["status"]
                            return
            except (OSError, WebSocketException):
                pass
            self.breathe()
        raise TimeoutError(f"cut {self.cuts} times")
