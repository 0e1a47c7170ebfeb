"""The access log: one line per request when its answer begins, so that a stream has its line at once.

A refused request has its line from `RejectionLog`, and a failed one that of its error: both with these fields, too, and
then this one is left out. Paths appear as templates of routes only, and neither queries nor headers appear at all.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ulid import Ulid
from pyoco_server.logs import log_often

logger = logging.getLogger(__name__)

# One label for all paths without a route, however many a client tries. No route has such a name.
NO_ROUTE = "(none)"
OTHER_METHOD = "(other)"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
WEBSOCKET = "WEBSOCKET"
ANONYMOUS = "anonymous"
SWITCHING_PROTOCOLS = 101
# From here on an answer says that the request failed.
FIRST_ERROR = 400
# A subject of a token is the issuer's text.
MAX_CLIENT_CHARS = 128

_BEGAN, _LOGGED, _PDCA = "pyoco.began", "pyoco.logged", "pyoco.pdca_request_id"


def set_pdca_request(request: HTTPConnection, request_id: Ulid) -> None:
    """Routes call it for a request that concerns a PDCA request: its id is in the line."""
    request.scope[_PDCA] = request_id


def endpoint_of(scope: Scope) -> str:
    """The template of the matched route, which the router leaves in the scope."""
    path: str = getattr(scope.get("route"), "path", NO_ROUTE)
    return path


def method_of(scope: Scope) -> str:
    """The method, if it is one of HTTP."""
    if scope["type"] == "websocket":
        return WEBSOCKET
    method: str = scope["method"]
    return method if method in METHODS else OTHER_METHOD


def client_id_of(scope: Scope) -> str:
    """The id of the API key, the subject of the token, or `anonymous`."""
    name: str | None = getattr(scope.get("caller"), "name", None)
    return ANONYMOUS if name is None else name[:MAX_CLIENT_CHARS]


def access_fields(scope: Scope, status: int, now: float | None = None) -> dict[str, Any]:
    """The fields of a request's line."""
    began: tuple[float, Callable[[], float]] | None = scope.get(_BEGAN)
    fields: dict[str, Any] = {
        "x_request_id": scope.get("request_id"),
        "client_id": client_id_of(scope),
        "method": method_of(scope),
        "endpoint": endpoint_of(scope),
        "http_status": status,
    }
    if began is not None:
        fields["latency_ms"] = round(((began[1]() if now is None else now) - began[0]) * 1000, 3)
    if _PDCA in scope:
        fields["request_id"] = scope[_PDCA]
    return fields


def note_logged(scope: Scope) -> None:
    """The request has a line with these fields."""
    scope[_LOGGED] = True


@dataclass(frozen=True, slots=True)
class AccessLog:
    """Writes the lines. `level` is None when there are to be none; of answers without an error `sample` have one."""

    level: int | None
    sample: float = 1.0
    chance: Callable[[], float] = random.random
    write: Callable[[logging.Logger, int, str, Mapping[str, object]], None] = log_often

    @classmethod
    def of(cls, config: NatsBackendConfig) -> AccessLog:
        level = logging.getLevelNamesMapping().get(config.access_log_level)
        return cls(level, config.access_log_sample)

    def begin(self, scope: Scope, began: float, now: Callable[[], float]) -> None:
        scope[_BEGAN] = (began, now)

    def note(self, scope: Scope, status: int, now: float) -> None:
        """Write the line of an answer that begins, unless the request has one."""
        if self.level is None or _LOGGED in scope:
            return
        if status < FIRST_ERROR and self.sample < 1 and self.chance() >= self.sample:
            return
        self.write(logger, self.level, "request", access_fields(scope, status, now))


NO_LOG = AccessLog(level=None)
