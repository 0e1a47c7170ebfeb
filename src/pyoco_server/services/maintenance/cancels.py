"""Ends what is overdue: requested cancels, and nodes whose wait or last lease is over."""

from __future__ import annotations

import logging

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import ExpireNode
from pyoco_server.errors import BrokerUnavailable, PyocoError
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import GATEWAY, Stores
from pyoco_server.services.executions.cancel import confirm_or_signal
from pyoco_server.services.executions.command_handler import handle

logger = logging.getLogger(__name__)

CANCELS_EVERY_SEC = 2.0
NODES_EVERY_SEC = 0.5
BATCH = 200


async def confirm_cancels(stores: Stores, index: RunIndex, config: NatsBackendConfig) -> None:
    """Confirm cancels without a holder, signal holders again, end what was not confirmed in time; oldest first."""
    after: tuple[float, str] | None = None
    while page := index.oldest("CANCELLING", after=after, limit=BATCH):
        after = page[-1].key
        for run in page:
            try:
                loaded = await stores.snapshots.load(run.run_id)
                if loaded is not None:
                    await confirm_or_signal(stores, loaded.execution, grace_sec=config.cancel_grace_period_sec)
            except BrokerUnavailable:
                raise
            except PyocoError:
                # It is first in the next iteration too: it must not block the others.
                logger.exception("cancel not confirmed", extra={"run_id": run.run_id})


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
