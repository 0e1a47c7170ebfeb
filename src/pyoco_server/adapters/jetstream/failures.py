"""Errors of the broker and of the connection, as errors of our catalogue; retries nothing."""

from __future__ import annotations

from pyoco_server.errors import BrokerUnavailable, Unanswered

# nats-server: server/errors.json
WRONG_LAST_SEQUENCE = (10071, 10164)
NO_MESSAGE = 10037
MESSAGE_GONE = (10037, 10043, 10057)
STREAM_NOT_FOUND = 10059
STREAM_NAME_IN_USE = 10058
SUBJECTS_OVERLAP = 10065
CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = (10105, 10148)
CONSUMER_NOT_UNIQUE = 10100


class RequestRejected(BrokerUnavailable):
    """The broker rejected a request; callers handle the codes they know, and the rest means unavailable."""

    def __init__(self, err_code: int, description: str) -> None:
        super().__init__(f"nats refused: {description} ({err_code})", number=err_code, description=description)
        self.err_code = err_code


class NoResponders(BrokerUnavailable):
    """Connected, but nothing serves this request: no JetStream, no such stream, or no leader yet."""


class ConnectionLost(Unanswered):
    """The connection was lost before the reply came: the request may or may not have been processed."""


class NoAnswer(Unanswered):
    """Connected, but no reply came in time."""


class ReadInterrupted(BrokerUnavailable):
    """A read of a range has a gap, or the broker fell silent; it can be repeated."""


class StreamReplaced(BrokerUnavailable):
    """The followed stream was recreated: positions in it are void."""
