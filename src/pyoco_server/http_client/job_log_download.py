"""How to bring a job's log as bytes, from any of them on and through broken connections: the logic of both clients,
without their I/O.

             ┌───────── pause ◀── lost, 5xx ──────────────┐
             ▼                                            │
size ──▶ open (Range: bytes=size-) ─ 206, 200 ──▶ read ───┴─ all of it ──▶ done
             └─ 416 ──▶ look (HEAD) ──▶ done
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyoco_server.http_client import answers, job_calls
from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Close, Open, Read, Script, Sleep, Tell, Transmit
from pyoco_server.http_client.errors import PyocoHttpError
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.retry import pause_sec
from pyoco_server.http_client.scripts import raise_failure

PARTIAL, NOTHING_BEYOND = 206, 416
COMPLETE_HEADER = "X-Log-Complete"
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18})", re.ASCII)

Failure = httpx.RequestError | PyocoHttpError


@dataclass(slots=True, kw_only=True)
class LogDownload:
    """One download over all its connections: where in the log it is, and how long it has brought nothing."""

    connection: Connection
    job_id: str
    position: int
    complete: bool | None = None
    failures: int = 0
    failing_since: float | None = None
    call: Call[str] = field(init=False)

    def run(self) -> Script[None]:
        """Tells pieces with the place where each begins; one that begins before the last has ended starts over."""
        while True:
            self.call = job_calls.job_log_text(self.job_id, self.position)
            answer: httpx.Response | httpx.RequestError = yield Open(self.call, self.connection.timeout_sec)
            if isinstance(answer, httpx.Response) and answer.status_code == NOTHING_BEYOND:
                yield from self._end_there(answer)
                return
            failure = yield from self._receive(answer)
            if failure is None:
                return
            yield Sleep(self._pause(failure))

    def _receive(self, answer: httpx.Response | httpx.RequestError) -> Script[Failure | None]:
        """Tells one answer to its end. What was wrong with it, if anything was."""
        if isinstance(answer, httpx.RequestError):
            return answer
        if not answer.is_success:
            return answers.error_of(answer, self.connection.timing.now())
        if answer.status_code != PARTIAL:
            self.position = 0  # whoever answers knows nothing of ranges: all of it comes once more
        elif _first_byte(answer) != self.position:
            yield Close()
            raise answers.broken_stream(answer, f"it does not begin at byte {self.position}")
        while True:
            piece: bytes | httpx.RequestError | None = yield Read()
            if isinstance(piece, httpx.RequestError):
                yield Close()
                return piece
            if piece is None:
                break
            self.failures, self.failing_since = 0, None
            yield Tell((self.position, piece))
            self.position += len(piece)
        yield Close()
        self.complete = _complete(answer)
        return None

    def _end_there(self, answer: httpx.Response) -> Script[None]:
        """There is nothing behind what is there; more than that was never in this log."""
        found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
        size = int(found[2]) if found else self.position
        if size < self.position:
            raise ValueError(
                f"the file has {self.position} bytes and the log {size}: it is not the beginning of this log; "
                "name another file, or start over (resume=False)"
            )
        # A refusal does not say whether more will come.
        looked: httpx.Response | httpx.RequestError = yield Transmit(job_calls.look_at_job_log(self.job_id))
        if isinstance(looked, httpx.Response) and looked.is_success:
            has_all = looked.headers.get("content-length") == str(self.position)
            self.complete = _complete(looked) if has_all else False

    def _pause(self, failure: Failure) -> float:
        """How long to wait before the next connection; raises when there is to be none."""
        timing = self.connection.timing
        if self.failing_since is None:
            self.failing_since = timing.monotonic()
        self.failures += 1
        pause = pause_sec(
            answers.trouble_of(failure),
            failures=self.failures,
            elapsed_sec=timing.monotonic() - self.failing_since,
            patience=self.connection.patience,
            asked_sec=failure.retry_after if isinstance(failure, PyocoHttpError) else None,
            luck=timing.luck(),
        )
        if pause is None:
            raise_failure(failure, self.call, self.failures)
        return pause


def _first_byte(answer: httpx.Response) -> int | None:
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
    return int(found[1]) if found and found[1] else None


def _complete(answer: httpx.Response) -> bool | None:
    """Whether the log had come to its end, where the gateway says so."""
    return {"true": True, "false": False}.get(answer.headers.get(COMPLETE_HEADER, ""))
