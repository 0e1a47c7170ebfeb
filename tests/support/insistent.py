"""Callers of gateways that may be killed: each asks with one key, until it is answered."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from support.killable import System

PATIENCE_SEC = 60.0
# The machine is wanted for the rest, too.
BETWEEN_TAGS_SEC = 0.03
LABELS = ["urgent", "seen/by ann", "日本語", "a&b=c"]


class Caller:
    """Somebody who sends a request with one key, now to this gateway and now to that, until it is answered."""

    def __init__(self, system: System, first: int = 0) -> None:
        self._system = system
        self._turn = first

    def done(self, method: str, path: str, body: Any = None) -> httpx.Response:
        key, until = str(uuid4()), time.monotonic() + PATIENCE_SEC
        while time.monotonic() < until:
            client = self._system.clients[self._turn % 2]
            self._turn += 1
            try:
                answer = client.request(method, path, json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                continue
            assert answer.status_code != 500, answer.text
            if answer.status_code < 500:
                return answer.raise_for_status()
        raise AssertionError(f"{method} {path} was never answered")

    def submit(self, path: Path, more: int = 0, **asked: Any) -> str:
        body = {"flow": "writes", "parameters": {"path": str(path), "more": more}, **asked}
        job_id: str = self.done("POST", "/jobs", body).json()["id"]
        return job_id


class Tagger:
    """Puts labels of its own on jobs and takes them off, one after the other, and knows which are there."""

    def __init__(self, system: System, job_ids: list[str], name: str, chance: random.Random) -> None:
        self._caller = Caller(system, first=len(name))
        self.labels = [f"{name} {label}" for label in LABELS]
        self._chance = chance
        self._stop = threading.Event()
        self.tags: dict[str, list[str]] = {job_id: [] for job_id in job_ids}

    def work(self) -> int:
        """Until it is stopped; how many answers it was given."""
        answers = 0
        while not self._stop.is_set():
            job_id, label = self._chance.choice(list(self.tags)), self._chance.choice(self.labels)
            has = self.tags[job_id]
            if self._chance.random() < 0.6:
                has += [label] if label not in has else []
                told = self._caller.done("POST", f"/jobs/{job_id}/tags", {"tag": label}).json()
                assert [tag for tag in told if tag in self.labels] == has
            else:
                has[:] = [tag for tag in has if tag != label]
                self._caller.done("DELETE", f"/jobs/{job_id}/tags/{quote(label, safe='')}")
            answers += 1
            self._stop.wait(BETWEEN_TAGS_SEC)
        return answers

    def stop(self) -> None:
        self._stop.set()
