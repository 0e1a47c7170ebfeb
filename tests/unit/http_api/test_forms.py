"""Forms: known parts, each once; everything else is rejected by name."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.types import Message

from pyoco_server.errors import InvalidRequest, UploadNotKept
from pyoco_server.http_api.protocol.forms import read_form, text_of

KNOWN = ("wheel", "tags")
FORM = "multipart/form-data; boundary=b"


def part(name: str, content: str, file_name: str | None = None) -> str:
    file = "" if file_name is None else f'; filename="{file_name}"'
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n{content}\r\n'


def request_of(*parts: str, content_type: str = FORM, end: str = "--b--\r\n") -> Request:
    body = ("".join(parts) + end).encode()
    # With an app in the scope, as in the gateway, Starlette raises another exception.
    scope = {"type": "http", "app": object(), "headers": [(b"content-type", content_type.encode())]}

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(scope, receive)


async def read(request: Request) -> dict[str, Any]:
    async with read_form(request, KNOWN, max_text_bytes=10, example="-F wheel=@x") as parts:
        return {
            name: (one.filename, await one.read()) if isinstance(one, UploadFile) else one
            for name, one in parts.items()
        }


async def test_files_and_texts_are_read_by_name() -> None:
    found = await read(request_of(part("tags", "a,b"), part("wheel", "bytes", "x.whl")))

    assert found == {"tags": "a,b", "wheel": ("x.whl", b"bytes")}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (request_of(content_type="application/json"), "-F wheel=@x"),
        (request_of(content_type="multipart/form-data"), "not multipart/form-data"),
        (request_of(part("more", "x")), "unknown part 'more'; known are wheel, tags"),
        (request_of(part("tags", "x"), part("tags", "y")), "twice"),
        (request_of(part("tags", "x" * 11)), "maximum size"),
        (request_of(part("wheel", "x", "a"), part("tags", "y", "b")), "Too many files"),
        (request_of("--c\r\n"), "not multipart/form-data"),
    ],
)
async def test_an_unexpected_form_is_rejected(request_: Request, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        await read(request_)


async def test_a_part_without_its_end_is_ignored() -> None:
    assert await read(request_of(part("tags", "a,b"), end="")) == {}


async def test_a_file_in_place_of_a_text_is_rejected() -> None:
    async with read_form(request_of(part("tags", "x", "x")), KNOWN, max_text_bytes=10, example="") as parts:
        with pytest.raises(InvalidRequest, match="tags must be text"):
            text_of(parts, "tags")
        assert text_of(parts, "wheel", "default") == "default"


async def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", full)

    with pytest.raises(UploadNotKept, match="No space left"):
        await read(request_of(part("wheel", "bytes", "x.whl")))
