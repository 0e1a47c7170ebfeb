"""Ends what is overdue: requested cancels, and nodes whose wait or last lease is over."""

from __future__ import annotations

import logging
from dataclasses import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import ExpireNode
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, PyocoError
from pyoco_server.ports import RunIndex, RunQuery
from pyoco_server.services.context import GATEWAY, Stores
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.executions.service import confirm_or_signal

logger = logging.getLogger(__name__)

CANCELS_EVERY_SEC = 2.0
NODES_EVERY_SEC = 0.5
BATCH = 200


async def confirm_cancels(stores: Stores, index: RunIndex, config: NatsBackendConfig) -> None:
    """Confirm cancels without a holder, signal holders again, end what was not confirmed in time; oldest first."""
    for run_id in reversed(_cancelling(index)):
        try:
            loaded = await stores.snapshots.load(run_id)
            if loaded is not None:
                await confirm_or_signal(stores, loaded.execution, grace_sec=config.cancel_grace_period_sec)
        except BrokerUnavailable:
            raise
        except PyocoError:
            # It is first in the next iteration too: it must not block the others.
            logger.exception("cancel not confirmed", extra={"run_id": run_id})


def _cancelling(index: RunIndex) -> list[RunId]:
    """All runs with a requested cancel, newest first: a bounded page of the newest would starve the overdue ones."""
    query, found = RunQuery(status="CANCELLING", limit=BATCH), list[RunId]()
    while rows := index.rows(query):
        found += [row.run_id for row in rows]
        query = replace(query, before=rows[-1].key)
    return found


async def expire_nodes(stores: Stores, index: RunIndex) -> None:
    """Fail nodes whose deadline is over, and nodes whose last lease has ended."""
    now = stores.clock.now()
    for node in index.due(before=now, limit=BATCH):
        facts = {"run_id": node.run_id, "node_id": node.node_id, "attempt": node.attempt}
        try:
            expire = ExpireNode(at=now, node_id=node.node_id, attempt=node.attempt)
            result = await handle(stores, node.run_id, expire, GATEWAY)
        except BrokerUnavailable:
            raise
        except PyocoError:
            # It is due in the next iteration too, before the others.
            logger.exception("node not expired", extra=facts)
            continue
        if result.events:
            logger.info("node expired", extra=facts)
