"""The async client of a gateway.

httpx is imported when the first client is made, not with this module: a program that only shows its help need not wait
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyoco_server.http_client._async.executions import AsyncExecutionMethods
from pyoco_server.http_client._async.flows import AsyncFlowMethods
from pyoco_server.http_client._async.jobs import AsyncJobMethods
from pyoco_server.http_client._async.nodes import AsyncNodeMethods
from pyoco_server.http_client._async.runs import AsyncRunMethods
from pyoco_server.http_client._async.strategies import AsyncStrategyMethods
from pyoco_server.http_client._async.wheels import AsyncWheelMethods
from pyoco_server.http_client.connection import (
    DEFAULT_RETRIES,
    DEFAULT_RETRY_WITHIN_SEC,
    DEFAULT_TIMEOUT_SEC,
    RetryPolicy,
    Timing,
    resolve_connection,
)
from pyoco_server.http_client.models.overview import Overview, Stats
from pyoco_server.http_client.models.runs import (
    AuditPage,
    DeadLetterPage,
    Health,
    Replayed,
    WorkerPatched,
    WorkerRecord,
)
from pyoco_server.http_client.requests import change, get, id_path, read_array, read_page, read_text

if TYPE_CHECKING:
    import httpx


class AsyncPyocoHttpClient(
    AsyncRunMethods,
    AsyncJobMethods,
    AsyncExecutionMethods,
    AsyncNodeMethods,
    AsyncFlowMethods,
    AsyncStrategyMethods,
    AsyncWheelMethods,
):
    """A client of one gateway. Close it, or use it with `async with`. Can be shared between tasks.

    The address is `base_url`, else PYOCO_SERVER, else http://127.0.0.1:8000; the API key is `api_key`, else
    PYOCO_API_KEY; `token` is a bearer token, else PYOCO_TOKEN. `timeout` (seconds) applies to one attempt. A failed
    attempt is repeated at most `retries` times, within `retry_within_sec`; `on_rate_limit` is called with the seconds
    of each wait that a rate limit causes. Every change carries an idempotency key, generated or given as
    `idempotency_key`, so that it takes effect once, however often it is sent. Errors are those of
    `pyoco_server.http_client.errors`; an argument that no gateway could accept is a ValueError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_SEC,
        retries: int = DEFAULT_RETRIES,
        retry_within_sec: float = DEFAULT_RETRY_WITHIN_SEC,
        api_key_header: str = "X-API-Key",
        language: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing | None = None,
        on_rate_limit: Callable[[float], None] | None = None,
    ) -> None:
        # Imported here, because they import httpx.
        from pyoco_server.http_client._async.streams import AsyncStreams
        from pyoco_server.http_client._async.transfers import AsyncTransfers
        from pyoco_server.http_client._async.transport import AsyncTransport

        self._connection = resolve_connection(
            base_url,
            api_key=api_key,
            token=token,
            timeout=timeout,
            policy=RetryPolicy(retries=retries, within_sec=retry_within_sec),
            api_key_header=api_key_header,
            language=language,
            timing=timing or Timing(),
            on_rate_limit=on_rate_limit,
        )
        self._transport = AsyncTransport(self._connection, transport)
        self._streams = AsyncStreams(self._transport)
        self._transfers = AsyncTransfers(self._transport)

    @property
    def base_url(self) -> str:
        """The gateway's address, without credentials."""
        return self._connection.base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    async def __aenter__(self) -> AsyncPyocoHttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the client cannot be used any more."""
        await self._transport.close()

    async def health(self) -> Health:
        """Whether the gateway is alive, and whether it reaches its broker."""
        return await self._transport.send(get("/health"))

    async def ready(self) -> Health:
        """Returns when the gateway accepts runs; otherwise raises `Unavailable` with the reason, after the retries."""
        return await self._transport.send(get("/ready"))

    async def get_metrics(self) -> str:
        """The gateway's metrics in the text format of Prometheus."""
        return await self._transport.send(get("/metrics", read=read_text, headers={"Accept": "text/plain"}))

    async def get_overview(self) -> Overview:
        """Runs by status, queues by tag, workers by state, what waits for people, and the health of the gateway."""
        return await self._transport.send(get("/overview"))

    async def get_stats(
        self,
        since: float | None = None,
        until: float | None = None,
        points: int | None = None,
        flow: str | None = None,
        tag: str | None = None,
    ) -> Stats:
        """How many runs were submitted and ended, and how long they took, by intervals; the last hour by default."""
        return await self._transport.send(get("/stats", since=since, until=until, points=points, flow=flow, tag=tag))

    async def list_workers(
        self,
        scope: str | None = None,
        state: str | None = None,
        include_hidden: bool | None = None,
        limit: int | None = None,
    ) -> list[WorkerRecord]:
        """The workers that are running or idle, or all known ones with `scope="all"`."""
        return await self._transport.send(
            get("/workers", read=read_array, scope=scope, state=state, include_hidden=include_hidden, limit=limit)
        )

    async def patch_worker(self, worker_id: str, hidden: bool, *, idempotency_key: str | None = None) -> WorkerPatched:
        """Hide a worker from lists, or show it again. It keeps working either way."""
        path = id_path("/workers", "worker_id", worker_id)
        return await self._transport.send(change("PATCH", path, idempotency_key, {"hidden": hidden}))

    async def list_dead_letters(
        self,
        reason: str | None = None,
        tag: str | None = None,
        flow: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DeadLetterPage:
        """One page of dead letters, newest first; pass its `next_cursor` as `cursor` to get the next page."""
        return await self._transport.send(
            get("/dlq", read=read_page(), reason=reason, tag=tag, flow=flow, limit=limit, cursor=cursor)
        )

    async def list_audit(
        self,
        actor: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        request_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AuditPage:
        """One page of who did what, newest first, for administrators; pass its `next_cursor` as `cursor`."""
        return await self._transport.send(
            get(
                "/audit",
                read=read_page(),
                actor=actor,
                action=action,
                resource=resource,
                request_id=request_id,
                since=since,
                until=until,
                limit=limit,
                cursor=cursor,
            )
        )

    async def replay_dead_letter(self, seq: int, *, idempotency_key: str | None = None) -> Replayed:
        """Run the job of a dead letter again as a new run; Conflict if it contains no job."""
        path = f"{id_path('/dlq', 'seq', str(seq))}/replay"
        return await self._transport.send(change("POST", path, idempotency_key, creates=True))
