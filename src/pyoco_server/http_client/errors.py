"""The exceptions of the SDK, and which of them stands for which answer of a gateway."""

from __future__ import annotations

from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.models.runs import RunSnapshot


def in_language(text: str, language: str | None) -> str:
    """The SDK's own text in the language that the client asks the gateway for (`language="ja"`)."""
    if not (language or "").lower().startswith("ja"):
        return text
    from pyoco_server.japanese import japanese

    return japanese(text)


def language_of(request: httpx.Request | None) -> str | None:
    return None if request is None else request.headers.get("Accept-Language")


class PyocoClientError(Exception):
    """Base of every error of the SDK. `str()` says what is wrong and what to do next."""

    err_id: str | None = None
    msg_id: str | None = None
    detail: str = ""
    hint: str | None = None


class PyocoHttpError(PyocoClientError, httpx.HTTPStatusError):
    """The gateway, or a proxy before it, answered with an error.

    `code` is the machine-readable code of executions, waits, graphs and jobs; `guard` is the rule that rejected a
    command.
    """

    def __init__(
        self,
        detail: str,
        *,
        request: httpx.Request,
        response: httpx.Response,
        err_id: str | None = None,
        msg_id: str | None = None,
        message: str | None = None,
        hint: str | None = None,
        retry_after: float | None = None,
        code: str | None = None,
        guard: str | None = None,
    ) -> None:
        self.detail, self.message, self.hint = detail, message, hint
        self.err_id, self.msg_id = err_id, msg_id
        self.code, self.guard = code, guard
        self.retry_after = retry_after
        self.status_code = response.status_code
        self.request_id: str | None = response.headers.get("x-request-id")
        known = f"{err_id}, HTTP {self.status_code}" if err_id else f"HTTP {self.status_code}"
        text = f"{detail} ({known})"
        super().__init__(f"{text}. {hint}" if hint else text, request=request, response=response)


class InvalidRequest(PyocoHttpError):
    """The input has to be corrected; `detail` says where."""


class Unauthenticated(PyocoHttpError):
    """Credentials are missing, or the token is not valid."""


class Forbidden(PyocoHttpError):
    """The credentials are not valid, or not enough."""


class NotFound(PyocoHttpError):
    """Nothing exists under that name."""


class RunNotFound(NotFound):
    """The run does not exist or is not visible to this caller."""


class WorkerNotFound(NotFound):
    """The worker does not exist."""


class WheelNotFound(NotFound):
    """The wheel does not exist."""


class GraphNotFound(NotFound):
    """The graph does not exist or is not visible to this caller."""


class Conflict(PyocoHttpError):
    """The request does not fit the current state."""


class CommandRejected(Conflict):
    """The command does not fit the state of the execution; `guard` is the rule, e.g. CANCEL_REQUESTED or NODE_HELD."""


class WheelVersionConflict(Conflict):
    """The same or a newer version of this package is registered."""


class GraphVersionConflict(Conflict):
    """Another version of the graph is the current one."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, for another request."""


class TooLarge(PyocoHttpError):
    """The request is larger than the gateway accepts."""


class Unavailable(PyocoHttpError):
    """The gateway cannot serve the request now; `retry_after` (seconds) is set if it said when to retry."""


class RateLimited(Unavailable):
    """This caller sends too many requests, or has too many streams; nothing was carried out.

    `retry_after` is when to send again, `limit` the requests per minute, `remaining` what is left of them right now.
    """

    @property
    def limit(self) -> int | None:
        return self._count("x-ratelimit-limit")

    @property
    def remaining(self) -> int | None:
        return self._count("x-ratelimit-remaining")

    def _count(self, header: str) -> int | None:
        value = self.response.headers.get(header, "")
        # Python refuses to convert thousands of digits.
        return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


class OrphanPossible(Unavailable):
    """The run was not accepted, but a part of it may have been stored."""


class GatewayFailed(PyocoHttpError):
    """The gateway failed; its log has details under `request_id`."""


class UnexpectedAnswer(PyocoHttpError):
    """The answer did not come from a gateway."""


class GatewayUnreachable(PyocoClientError, httpx.TransportError):
    """No answer arrived; `__cause__` is the error of httpx."""

    err_id = "ERR-PYOCO-0001"
    msg_id = "MSG-PYOCO-0001"
    hint: str = "Start the gateway (pyoco-server up) and check the address."

    def __init__(self, detail: str, *, request: httpx.Request | None = None) -> None:
        language = language_of(request)
        self.detail, self.hint = in_language(detail, language), in_language(self.hint, language)
        super().__init__(f"{self.detail} ({self.err_id}). {self.hint}", request=request)


class SubmitUncertain(GatewayUnreachable):
    """Every attempt lost its connection after the run was sent: it may have been accepted.

    Submitting again with the same `idempotency_key` yields the same run.
    """

    hint = "The run may have been accepted: submit it with the same idempotency_key, or look for it (list_runs)."

    def __init__(
        self, detail: str, *, request: httpx.Request | None = None, idempotency_key: str | None = None
    ) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(detail, request=request)


class WaitTimeout(PyocoClientError, TimeoutError):
    """The run did not finish in time. It continues; waiting again is possible."""

    hint: str = "The run continues; wait again, or see explain_run."

    def __init__(self, run_id: str, timeout_sec: float, snapshot: RunSnapshot, *, language: str | None = None) -> None:
        self.run_id = run_id
        self.timeout_sec = timeout_sec
        self.snapshot = snapshot
        detail = f"run {run_id} is {snapshot.get('status')}, not finished after {round(timeout_sec, 2):g} s"
        self.detail, self.hint = in_language(detail, language), in_language(self.hint, language)
        super().__init__(f"{self.detail}. {self.hint}")


_BY_ID: dict[str, type[PyocoHttpError]] = {
    "ERR-PYOCO-0004": OrphanPossible,
    "ERR-PYOCO-0005": RunNotFound,
    "ERR-PYOCO-0020": WorkerNotFound,
    "ERR-PYOCO-0022": WheelVersionConflict,
    "ERR-PYOCO-0023": WheelNotFound,
    "ERR-PYOCO-0030": CommandRejected,
    "ERR-PYOCO-0047": IdempotencyConflict,
    "ERR-PYOCO-0056": GraphNotFound,
    "ERR-PYOCO-0057": GraphVersionConflict,
    "ERR-PYOCO-0092": RateLimited,
    "ERR-PYOCO-0125": RateLimited,
}
_BY_STATUS: dict[int, type[PyocoHttpError]] = {
    **dict.fromkeys((400, 416, 421, 422), InvalidRequest),
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    **dict.fromkeys((409, 412), Conflict),
    413: TooLarge,
    429: RateLimited,
    **dict.fromkeys((502, 503, 504), Unavailable),
}


def http_error_class(err_id: str | None, status: int) -> type[PyocoHttpError]:
    """The error id decides, else the status."""
    fallback = GatewayFailed if status >= 500 else UnexpectedAnswer
    return _BY_ID.get(err_id or "") or _BY_STATUS.get(status) or fallback
