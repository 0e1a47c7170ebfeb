"""Length-prefixed JSON frames, to bytes and back; pure, so it neither reads nor writes a socket.

A frame is a length (4 bytes, big-endian) and so many bytes of JSON. User code shares its process with one end of the
socket, so anything may arrive: what is not a frame is an error at once, never a wait for bytes that do not come.
"""

from __future__ import annotations

import struct
from typing import Any

import orjson

FRAME_CAP_BYTES = 8 * 1024 * 1024

_LENGTH = struct.Struct(">I")


class CorruptFrame(ValueError):
    """the bytes received are not a frame"""


class FrameTooLarge(ValueError):
    """the message does not fit into a frame"""


def encode(message: object) -> bytes:
    """The message as one frame; refuses what is larger than the cap."""
    body = orjson.dumps(message)
    if len(body) > FRAME_CAP_BYTES:
        raise FrameTooLarge(f"a message of {len(body)} bytes is larger than the cap of {FRAME_CAP_BYTES}")
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Takes bytes as they come and gives back the messages that have become whole."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages completed by these bytes; after a CorruptFrame the stream is of no further use."""
        buffer = self._buffer
        buffer += data
        messages: list[Any] = []
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > FRAME_CAP_BYTES:
                raise CorruptFrame(f"a frame says that it has {length} bytes; the cap is {FRAME_CAP_BYTES}")
            body = start + _LENGTH.size
            if len(buffer) - body < length:
                break
            try:
                messages.append(orjson.loads(bytes(buffer[body : body + length])))
            except orjson.JSONDecodeError as error:
                raise CorruptFrame(f"a frame of {length} bytes is not JSON: {error}") from error
            start = body + length
        del buffer[:start]
        return messages
