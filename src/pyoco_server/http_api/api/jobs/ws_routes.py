"""`/jobs/{id}/ws`, a job on a WebSocket, and `POST /jobs/{id}/ws-ticket` for clients without headers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import HTTPConnection
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.errors import InvalidLogQuery, PyocoError
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.log_schemas import PlaceQuery
from pyoco_server.http_api.api.jobs.routes import JobIdPath
from pyoco_server.http_api.api.jobs.websocket_session import Session
from pyoco_server.http_api.dependencies import CallerDep, ExecutionsDep, TicketsDep, check_given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.callers import limited_caller
from pyoco_server.http_api.protocol.idempotency import answered_anew
from pyoco_server.http_api.protocol.request_parsing import caller_of, context_of, services_of
from pyoco_server.http_api.protocol.times import rfc3339
from pyoco_server.http_api.protocol.websocket import Socket
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import describe, job_failures

router = APIRouter(prefix="/jobs", tags=["jobs"])


class SocketQuery(PlaceQuery):
    """The query of a WebSocket, without the ticket, which the guard removes."""

    logs: bool = True

    @classmethod
    def of(cls, connection: HTTPConnection) -> SocketQuery:
        check_given_once(connection, InvalidLogQuery)
        try:
            return cls.model_validate(dict(connection.query_params))
        except ValidationError as error:
            raise InvalidLogQuery(describe(list(error.errors()))) from error


class JobSocket:
    """A job on a WebSocket: `status` and `log` frames down, `ping` and `cancel` up, `end` when it is over."""

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        connection, socket = HTTPConnection(scope), Socket(receive, send)
        await socket.accept()
        try:
            query, run_id = SocketQuery.of(connection), parse_run_id(scope["path_params"]["id"])
            caller, context = caller_of(connection), context_of(connection)
            session = Session(socket, services_of(connection), run_id, caller, context, limited_caller(scope).name)
            verdict = await session.run(
                query.place(run_id), tail=query.tail, logs=query.logs, until_revoked=scope.get("until_revoked")
            )
        except PyocoError as error:
            await socket.send(stream_encoding.error_frame(error))
            await socket.refuse(error)
        else:
            if verdict is not None:
                await socket.close(*verdict)


# Starlette's own route: FastAPI's would reject an invalid path before the accept, and the page would not see why.
router.routes.append(WebSocketRoute("/jobs/{id}/ws", requires_scope(Scope.RUNS_READ)(JobSocket()), name="job_socket"))


class JobTicket(BaseModel):
    """A single-use ticket, its URL and its expiry."""

    ticket: str = Field(examples=["kq3v…"])
    expires_at: str = Field(alias="expiresAt", examples=["2026-02-18T12:00:30.000Z"])
    url: str = Field(examples=["/jobs/0198…/ws?ticket=kq3v…"])


ANSWERS: dict[int | str, dict[str, Any]] = {201: {"model": JobTicket}, **job_failures(404, 422, 503)}


@router.post("/{id}/ws-ticket", status_code=201, response_class=Response, responses=ANSWERS)
@requires_scope(Scope.RUNS_READ)
@answered_anew
async def hand_out_ticket(
    job_id: JobIdPath, executions: ExecutionsDep, tickets: TicketsDep, caller: CallerDep
) -> Response:
    """A ticket for the WebSocket of this job: valid once, for 30 seconds, at any gateway, with the caller's scopes."""
    run_id = parse_run_id(job_id)
    await executions.get_snapshot(run_id, tenant_filter=caller.tenant_filter)
    made = await tickets.hand_out(caller, run_id)
    body = {
        "ticket": made.ticket,
        "expiresAt": rfc3339(made.expires_at),
        "url": f"/jobs/{run_id}/ws?ticket={made.ticket}",
    }
    return json_response(body, 201, {"Cache-Control": "no-store"})
