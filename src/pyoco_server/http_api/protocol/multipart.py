"""multipart/form-data, read while it arrives: a few parts that have a name here, each within its own limit.

A body is given up at the first byte that is too many or does not belong there. One part may go to a sink, as its bytes
arrive; the others are kept in memory, and are small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from pyoco_server.errors import InvalidRequest, PyocoError

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FORM = "multipart/form-data"
EXAMPLE = "-F workflow=@flow.yaml -F flow_name=main"
MAX_PART_HEADERS = 8
MAX_PART_HEADER_BYTES = 2_048
# What a form may have beside the contents of its parts: boundaries and headers.
MAX_FRAME_BYTES = 64 * 1024
_PLAIN_ENCODINGS = (b"", b"7bit", b"8bit", b"binary")


@dataclass(frozen=True, slots=True)
class Limit:
    """How large a part may be, and what to say of one that is larger."""

    max_bytes: int
    refusal: Callable[[], PyocoError]


class Sink(Protocol):
    """Where the bytes of one part go; what it raises ends the reading."""

    @property
    def part(self) -> str: ...
    def begin(self, file_name: str) -> None: ...
    def take(self, data: bytes) -> None: ...
    async def flush(self) -> None:
        """Do what takes time; called after every piece of the body."""


async def read_form(
    request: Request, limits: Mapping[str, Limit], *, sink: Sink | None = None, example: str = EXAMPLE
) -> dict[str, bytes]:
    """The contents of the form's parts; `InvalidRequest` for a part that is not in `limits` or comes twice.

    Of the part that goes to the sink there is the name only.
    """
    form = _Form(limits, sink)
    try:
        parser = MultipartParser(
            _boundary(request, example),
            form.callbacks(),
            max_header_count=MAX_PART_HEADERS,
            max_header_size=MAX_PART_HEADER_BYTES,
        )
        async for chunk in request.stream():
            if not form.is_whole:  # what follows the last boundary belongs to nobody
                parser.write(chunk)
                if sink is not None:
                    await sink.flush()
    except FormParserError as error:
        raise InvalidRequest(f"the body is not {FORM}: {error}"[:300]) from error
    if not form.is_whole:
        raise InvalidRequest(f"the body is not {FORM}: its last boundary is missing")
    return form.contents


def declared_bytes(request: Request) -> int:
    """The size that the body says it has; 0 when it says nothing."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() and len(declared) < 20 else 0


def _boundary(request: Request, example: str) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != FORM.encode():
        raise InvalidRequest(f"the content type is not {FORM}; with curl: {example}")
    if not options.get(b"boundary"):
        raise InvalidRequest(f"the content type {FORM} has no boundary")
    return options[b"boundary"]


class _Form:
    """What the parser has found so far."""

    def __init__(self, limits: Mapping[str, Limit], sink: Sink | None) -> None:
        self.contents: dict[str, bytes] = {}
        self.is_whole = False
        self._limits = limits
        self._sink = sink
        self._sinks = False
        self._size = 0
        self._headers: dict[bytes, bytes] = {}
        self._header = b"", b""
        self._name = ""
        self._data = bytearray()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._take_header(data[start:end], b""),
            "on_header_value": lambda data, start, end: self._take_header(b"", data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._name_part,
            "on_part_data": self._take_data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        self._headers = {}
        self._data = bytearray()
        self._size = 0

    def _take_header(self, name: bytes, value: bytes) -> None:
        self._header = self._header[0] + name, self._header[1] + value

    def _end_header(self) -> None:
        name, value = self._header
        self._headers[name.lower()] = value
        self._header = b"", b""

    def _name_part(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition"))
        name = options.get(b"name", b"").decode(errors="replace")
        if kind != b"form-data" or not name:
            raise InvalidRequest("a part of the form has no name")
        if name not in self._limits:
            raise InvalidRequest(f"unknown part {name[:60]!r}; known are {', '.join(self._limits)}")
        if name in self.contents:
            raise InvalidRequest(f"the part {name!r} is there twice")
        if self._headers.get(b"content-transfer-encoding", b"").strip().lower() not in _PLAIN_ENCODINGS:
            raise InvalidRequest(f"the part {name!r} is encoded; send it as it is")
        self._name = name
        self._sinks = self._sink is not None and name == self._sink.part
        if self._sink is not None and self._sinks:
            self._sink.begin(options.get(b"filename", b"").decode(errors="replace"))

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        limit = self._limits[self._name]
        self._size += end - start
        if self._size > limit.max_bytes:
            raise limit.refusal()
        if self._sink is not None and self._sinks:
            self._sink.take(data[start:end])
        else:
            self._data += data[start:end]

    def _end_part(self) -> None:
        self.contents[self._name] = bytes(self._data)

    def _end(self) -> None:
        self.is_whole = True
