"""What can go wrong for a user of the SDK, as exceptions. Which one it is, `answers` decides.

PyocoClientError                          every error of the SDK: err_id, msg_id, detail, hint
├── PyocoHttpError (httpx.HTTPStatusError)    the gateway answered, but not as hoped: status_code, request_id, …
│   ├── InvalidRequest        422, 400, 416
│   ├── Unauthenticated       401
│   ├── Forbidden             403
│   ├── NotFound              404
│   │   ├── RunNotFound       ERR-PYOCO-0005
│   │   ├── WorkerNotFound    ERR-PYOCO-0020
│   │   ├── WheelNotFound     ERR-PYOCO-0023
│   │   └── GraphNotFound     ERR-PYOCO-0056
│   ├── Conflict              409, 412
│   │   ├── CommandRejected       ERR-PYOCO-0030: `guard` says which rule of executions it ran into
│   │   ├── WheelVersionConflict  ERR-PYOCO-0022
│   │   ├── GraphVersionConflict  ERR-PYOCO-0057
│   │   └── IdempotencyConflict   ERR-PYOCO-0047
│   ├── TooLarge              413
│   ├── Unavailable           502, 503, 504, 429
│   │   └── OrphanPossible    ERR-PYOCO-0004
│   ├── GatewayFailed         any other 5xx
│   └── UnexpectedAnswer      not what a gateway says: a proxy's page, a body that is not JSON
├── GatewayUnreachable (httpx.TransportError)  ERR-PYOCO-0001: no answer came
│   └── SubmitUncertain       the connection broke under a submit: the run may have been accepted
└── WaitTimeout (TimeoutError)                 the run is not finished yet; `snapshot` is the last that was seen
"""

from __future__ import annotations

from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.shapes import RunSnapshot


class PyocoClientError(Exception):
    """Every error of the SDK. `str()` is a sentence for people: what is so, and what to do next."""

    err_id: str | None = None
    msg_id: str | None = None
    detail: str = ""
    hint: str | None = None


class PyocoHttpError(PyocoClientError, httpx.HTTPStatusError):
    """The gateway, or somebody on the way to it, answered with an error.

    `code` is its word for programs where executions, waits, graphs and jobs are spoken of; `guard` is the rule that
    refused a command.
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
        self.detail = detail
        self.code = code
        self.guard = guard
        self.err_id = err_id
        self.msg_id = msg_id
        self.message = message
        self.hint = hint
        self.retry_after = retry_after
        self.status_code = response.status_code
        self.request_id: str | None = response.headers.get("x-request-id")
        known = f"{err_id}, HTTP {self.status_code}" if err_id else f"HTTP {self.status_code}"
        told = f"{detail} ({known})"
        super().__init__(f"{told}. {hint}" if hint else told, request=request, response=response)


class InvalidRequest(PyocoHttpError):
    """The input has to be corrected; `detail` says where."""


class Unauthenticated(PyocoHttpError):
    """Credentials are missing, or the token is not valid."""


class Forbidden(PyocoHttpError):
    """The credentials are not valid, or not enough."""


class NotFound(PyocoHttpError):
    """There is nothing under that name."""


class RunNotFound(NotFound):
    """There is no such run, or not for this caller."""


class WorkerNotFound(NotFound):
    """There is no such worker."""


class WheelNotFound(NotFound):
    """There is no such wheel."""


class GraphNotFound(NotFound):
    """There is no such graph, or not for this caller."""


class Conflict(PyocoHttpError):
    """It does not fit the present state."""


class CommandRejected(Conflict):
    """The command does not fit the execution as it is: `guard` is the rule, as CANCEL_REQUESTED or NODE_HELD."""


class WheelVersionConflict(Conflict):
    """The same or a newer version of this package is registered."""


class GraphVersionConflict(Conflict):
    """Another version of the graph is the present one."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, for another request."""


class TooLarge(PyocoHttpError):
    """More was sent than is accepted."""


class Unavailable(PyocoHttpError):
    """Not now; `retry_after` says when to ask again, if the gateway said so."""


class OrphanPossible(Unavailable):
    """The run was not accepted, but something of it may have been left behind."""


class GatewayFailed(PyocoHttpError):
    """The gateway has a fault; its log has more under `request_id`."""


class UnexpectedAnswer(PyocoHttpError):
    """The answer is not one that a gateway gives."""


class GatewayUnreachable(PyocoClientError, httpx.TransportError):
    """No answer came; `__cause__` is what the HTTP library said."""

    err_id = "ERR-PYOCO-0001"
    msg_id = "MSG-PYOCO-0001"
    hint = "Start the gateway (pyoco-server up) and check the address."

    def __init__(self, detail: str, *, request: httpx.Request | None = None) -> None:
        self.detail = detail
        super().__init__(f"{detail} ({self.err_id}). {self.hint}", request=request)


class SubmitUncertain(GatewayUnreachable):
    """The connection broke after the run was sent, at every try: it may have been accepted.

    Submitted again with the same `idempotency_key` it is the same run.
    """

    hint = "The run may have been accepted: submit it with the same idempotency_key, or look for it (list_runs)."

    def __init__(
        self, detail: str, *, request: httpx.Request | None = None, idempotency_key: str | None = None
    ) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(detail, request=request)


class WaitTimeout(PyocoClientError, TimeoutError):
    """The run was not finished in time. It goes on: waiting again is fine."""

    hint = "The run goes on; wait again, or see explain_run."

    def __init__(self, run_id: str, timeout_sec: float, snapshot: RunSnapshot) -> None:
        self.run_id = run_id
        self.timeout_sec = timeout_sec
        self.snapshot = snapshot
        self.detail = f"run {run_id} is {snapshot.get('status')}, not finished after {timeout_sec:g} s"
        super().__init__(f"{self.detail}. {self.hint}")
