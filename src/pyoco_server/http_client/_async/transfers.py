"""Transfers of files: wheels up and down, and job logs, which resume at any byte.

A repeated change has the key of the first attempt and gets its answer. A gateway without idempotency keys reports the
effect of the first attempt as a conflict instead. Therefore a refused repeat is checked: the registered wheel is the
uploaded one if it has the same bytes, and a wheel that is missing was deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import IO

from pyoco_server.http_client import answers
from pyoco_server.http_client._async.transport import AsyncTransport
from pyoco_server.http_client.answers import FAILURES
from pyoco_server.http_client.errors import NotFound, PyocoHttpError, WheelVersionConflict
from pyoco_server.http_client.files import LogFile, Progress, sha256_hex
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.models.runs import WheelArtifact, WheelDeleted
from pyoco_server.http_client.requests import Request, get, job_path, read_array, read_text
from pyoco_server.http_client.retrying import Retry

# Between the last byte of an upload and its answer the gateway checks and stores the whole wheel.
UPLOAD_SILENCE_SEC = 300.0
PARTIAL, RANGE_NOT_SATISFIABLE = 206, 416
COMPLETE_HEADER = "X-Log-Complete"
BYTES_OF_TEXT = {"Accept": "text/plain", "Accept-Encoding": "identity"}
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18})", re.ASCII)


class AsyncTransfers:
    """The file operations of a client."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._connection = transport.connection

    async def upload_wheel(self, request: Request[WheelArtifact], name: str, file: IO[bytes]) -> WheelArtifact:
        retry = Retry(self._connection)
        silence_sec = max(self._connection.timeout_sec, UPLOAD_SILENCE_SEC)
        try:
            return await self._transport.send(request, retry, silence_sec=silence_sec)
        except WheelVersionConflict:
            if retry.failures == 1:
                raise
            registered: list[WheelArtifact] = await self._transport.send(get("/wheels", read=read_array))
            wanted = name, sha256_hex(file)
            for wheel in registered:
                if (wheel["name"], wheel.get("sha256_hex")) == wanted:
                    return wheel
            raise

    async def delete_wheel(self, request: Request[WheelDeleted], name: str) -> WheelDeleted:
        retry = Retry(self._connection)
        try:
            return await self._transport.send(request, retry)
        except NotFound:
            if retry.failures == 1:
                raise
            return {"name": name, "deleted": True}

    async def download_wheel(self, request: Request[str], name: str, file: IO[bytes], progress: Progress | None) -> int:
        """Write a wheel to the file and return its size. Raises unless all bytes arrived and are the stored ones."""
        retry = Retry(self._connection)
        while True:
            size = 0
            try:
                async with self._transport.open(request, self._connection.timeout_sec) as response:
                    digest, total = hashlib.sha256(), _content_length(response)
                    async for piece in response.aiter_bytes():
                        digest.update(piece)
                        size += len(piece)
                        await asyncio.to_thread(file.write, piece)
                        if progress is not None:
                            progress(size, total)
            except FAILURES as failure:
                if size and isinstance(failure, httpx.RequestError):
                    # The file may not be seekable: what was written cannot be taken back.
                    raise answers.unreachable(failure, request, 1) from failure
                pause_sec = retry.pause_sec(failure, request)
            else:
                break
            await self._transport.sleep(pause_sec)
        stored = response.headers.get("etag", "").strip('"')
        if size != (total or size) or (len(stored) == 64 and stored != digest.hexdigest()):
            raise answers.unexpected(response, f", but its bytes are not those of {name}")
        return size

    async def download_job_log(self, job_id: str, log: LogFile) -> bool | None:
        """Append what the log has beyond the file. Whether the file now has all there will be; None if unknown.

                     ┌───────── pause ◀── lost, 5xx ──────────────┐
                     ▼                                            │
        size ──▶ open (Range: bytes=size-) ─ 206, 200 ──▶ read ───┴─ end of the log ──▶ done
                     └─ 416 ──▶ HEAD ──▶ done
        """
        path = f"{job_path(job_id)}/logs"
        retry = Retry(self._connection)
        retry.progress()  # the time for retries begins with the first failure
        position = log.size
        while True:
            headers = BYTES_OF_TEXT | ({"Range": f"bytes={position}-"} if position else {})
            request: Request[str] = get(path, read=read_text, headers=headers)
            try:
                async with self._transport.open(request, self._connection.timeout_sec) as response:
                    if response.status_code != PARTIAL:
                        position = 0  # the server ignored the range and sends the log from its start
                    elif _first_byte(response) != position:
                        raise answers.unexpected(response, f", but it does not begin at byte {position}")
                    async for piece in response.aiter_bytes():
                        retry.progress()
                        await asyncio.to_thread(log.write, position, piece)
                        position += len(piece)
                    return _is_complete(response)
            except FAILURES as failure:
                if isinstance(failure, PyocoHttpError) and failure.status_code == RANGE_NOT_SATISFIABLE:
                    return await self._is_log_complete(path, position, failure.response)
                pause_sec = retry.pause_sec(failure, request)
            await self._transport.sleep(pause_sec)

    async def _is_log_complete(self, path: str, position: int, refusal: httpx.Response) -> bool | None:
        """Whether a log with nothing after `position` is complete. Raises if it never had so many bytes."""
        found = _CONTENT_RANGE.fullmatch(refusal.headers.get("content-range", ""))
        size = int(found[2]) if found else position
        if size < position:
            raise ValueError(
                f"the file has {position} bytes and the log {size}: it is not the beginning of this log; "
                "name another file, or start over (resume=False)"
            )
        # The refusal does not say whether more will come.
        request: Request[str] = Request(method="HEAD", path=path, read=read_text, headers=BYTES_OF_TEXT)
        try:
            head = await self._transport.exchange(request)
        except FAILURES:
            return None
        return _is_complete(head) if head.headers.get("content-length") == str(position) else False


def _first_byte(response: httpx.Response) -> int | None:
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    return int(found[1]) if found and found[1] else None


def _is_complete(response: httpx.Response) -> bool | None:
    return {"true": True, "false": False}.get(response.headers.get(COMPLETE_HEADER, ""))


def _content_length(response: httpx.Response) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
