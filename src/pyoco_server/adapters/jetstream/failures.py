"""What the broker refuses and what goes wrong on the way, in the words of our catalogue; retries nothing."""

from __future__ import annotations

from typing import Any

import orjson

from pyoco_server.adapters.jetstream.messages import NO_RESPONDERS, Message
from pyoco_server.errors import BrokerUnavailable, Unanswered

# nats-server: server/errors.json
WRONG_LAST_SEQUENCE = (10071, 10164)
NO_MESSAGE = 10037
MESSAGE_GONE = (10037, 10043, 10057)
STREAM_NOT_FOUND = 10059
STREAM_NAME_IN_USE = 10058
SUBJECTS_OVERLAP = 10065
TOO_LITTLE_STORAGE = 10047
CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = (10105, 10148)
CONSUMER_NOT_UNIQUE = 10100


class Refused(BrokerUnavailable):
    """The broker's own answer is no; callers look at the number, and what they do not know goes up as unavailable."""

    def __init__(self, number: int, description: str, stream: str = "") -> None:
        super().__init__(f"nats refused: {description} ({number})", number=number, stream=stream)
        self.number = number
        self.description = description


class ConnectionLost(Unanswered):
    """The connection went away while we waited for the reply: it may or may not have been done."""


class NoAnswer(Unanswered):
    """We are connected, but no reply came in time."""


class ReadInterrupted(BrokerUnavailable):
    """A read of a range has a gap, or the broker fell silent; it can be repeated."""


class StreamReplaced(BrokerUnavailable):
    """The stream that was followed is not the one that is there now: positions in it mean nothing any more."""


def answer(message: Message) -> dict[str, Any]:
    """The JSON of a JetStream reply, or the error in it."""
    if message.status == NO_RESPONDERS:
        raise BrokerUnavailable("nats answers, but JetStream or the stream does not")
    try:
        reply: dict[str, Any] = orjson.loads(message.data)
    except orjson.JSONDecodeError as error:
        raise BrokerUnavailable("nats answered something that is not JSON") from error
    error_part = reply.get("error")
    if error_part is not None:
        raise Refused(error_part.get("err_code", error_part.get("code", 0)), error_part.get("description", ""))
    return reply


def acknowledged(message: Message) -> int:
    """The sequence under which a published message was stored."""
    sequence: int = answer(message)["seq"]
    return sequence
