"""Forms that arrive in pieces of any size: read within their limits, or refused with a clear word."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.requests import Request
from starlette.types import Message

from pyoco_server.errors import InvalidRequest, PyocoError, WorkflowTooLarge
from pyoco_server.http_api.protocol.multipart import Limit, declared_bytes, read_form

LIMITS: Mapping[str, Limit] = {
    "workflow": Limit(100, WorkflowTooLarge),
    "flow_name": Limit(20, lambda: InvalidRequest("flow_name is too long")),
}
TYPE = "multipart/form-data; boundary=cut"


def part(name: str, content: bytes, *headers: str, disposition: str | None = None) -> bytes:
    head = disposition or f'form-data; name="{name}"'
    lines = [f"Content-Disposition: {head}", *headers]
    return b"--cut\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n"


END = b"--cut--\r\n"
GOOD = (
    part("workflow", b"a: 1\r\n--not a boundary", "Content-Type: application/yaml") + part("flow_name", b"main") + END
)


def request(body: bytes, content_type: str | None = TYPE, size: int = 7) -> Request:
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False

    async def receive() -> Message:
        return messages.pop(0)

    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


async def refused(body: bytes, content_type: str | None = TYPE) -> PyocoError:
    with pytest.raises(PyocoError) as error:
        await read_form(request(body, content_type), LIMITS)
    return error.value


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
async def test_a_form_is_read_in_pieces_of_any_size(size: int) -> None:
    form = await read_form(request(GOOD, size=size), LIMITS)

    assert form == {"workflow": b"a: 1\r\n--not a boundary", "flow_name": b"main"}


@pytest.mark.parametrize("content_type", ['multipart/form-data; boundary="cut"', "Multipart/Form-Data;boundary=cut"])
async def test_the_boundary_is_found_however_it_is_written(content_type: str) -> None:
    assert len(await read_form(request(GOOD, content_type), LIMITS)) == 2


async def test_what_follows_the_last_boundary_is_ignored() -> None:
    assert len(await read_form(request(GOOD + b"--cut\r\nanything" * 5, size=1000), LIMITS)) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (part("surprise", b"1") + END, "unknown part 'surprise'; known are workflow, flow_name"),
        (part("flow_name", b"a") + part("flow_name", b"b") + END, "'flow_name' is there twice"),
        (part("", b"a") + END, "has no name"),
        (part("x", b"a", disposition="attachment; name=workflow") + END, "has no name"),
        (b"--cut\r\n\r\nno headers\r\n" + END, "has no name"),
        (part("workflow", b"YQ==", "Content-Transfer-Encoding: base64") + END, "is encoded"),
        (part("workflow", b"a"), "last boundary is missing"),
        (GOOD[:-4], "last boundary is missing"),
        (b"", "last boundary is missing"),
        (b"nothing like it", "not multipart/form-data"),
        (b'{"flow_name": "main"}', "not multipart/form-data"),
        (part("workflow", b"a", *[f"X-{n}: 1" for n in range(20)]) + END, "not multipart/form-data"),
        (part("workflow", b"a", "X: " + "y" * 9000) + END, "not multipart/form-data"),
        (part("flow_name", b"n" * 21) + END, "flow_name is too long"),
    ],
)
async def test_a_form_that_is_not_as_expected_is_refused(body: bytes, words: str) -> None:
    error = await refused(body)

    assert isinstance(error, InvalidRequest)
    assert words in error.detail


@pytest.mark.parametrize(
    ("content_type", "words"),
    [
        (None, "the content type is not multipart/form-data"),
        ("application/json", "the content type is not multipart/form-data"),
        ("application/x-www-form-urlencoded", "the content type is not"),
        ("multipart/mixed; boundary=cut", "the content type is not"),
        ("multipart/form-data", "has no boundary"),
        ("multipart/form-data; boundary=", "has no boundary"),
        ("multipart/form-data; boundary=" + "x" * 500, "not multipart/form-data"),
    ],
)
async def test_another_content_type_is_refused(content_type: str | None, words: str) -> None:
    assert words in (await refused(GOOD, content_type)).detail


async def test_a_part_above_its_limit_is_refused_before_the_rest_is_read() -> None:
    asked = request(part("workflow", b"x" * 101) + b"never read" * 1000)

    with pytest.raises(WorkflowTooLarge):
        await read_form(asked, LIMITS)


@pytest.mark.parametrize(("declared", "size"), [("5", 5), ("", 0), ("-5", 0), ("²", 0), ("9" * 30, 0)])
def test_the_declared_size_is_a_number_or_nothing(declared: str, size: int) -> None:
    asked = Request({"type": "http", "headers": [(b"content-length", declared.encode("latin-1", "replace"))]})

    assert declared_bytes(asked) == size


class Bucket:
    """A sink that notes what it was told, and when."""

    part = "workflow"

    def __init__(self) -> None:
        self.names: list[str] = []
        self.data = b""
        self.flushes = 0

    def begin(self, file_name: str) -> None:
        self.names.append(file_name)

    def take(self, data: bytes) -> None:
        self.data += data

    async def flush(self) -> None:
        self.flushes += 1


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_one_part_may_go_elsewhere_while_it_arrives(size: int) -> None:
    body = part("workflow", b"a\r\n--cu", disposition='form-data; name="workflow"; filename="a.yaml"')
    sink = Bucket()

    form = await read_form(request(body + part("flow_name", b"main") + END, size=size), LIMITS, sink=sink)

    assert form == {"workflow": b"", "flow_name": b"main"}
    assert (sink.names, sink.data) == (["a.yaml"], b"a\r\n--cu")
    assert sink.flushes >= len(body) // size


async def test_what_goes_elsewhere_has_its_limit_too() -> None:
    sink = Bucket()

    with pytest.raises(WorkflowTooLarge):
        await read_form(request(part("workflow", b"x" * 101) + END, size=10), LIMITS, sink=sink)
    assert len(sink.data) <= 100
