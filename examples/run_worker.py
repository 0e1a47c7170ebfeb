"""A worker inside your own program: it takes jobs from NATS and runs the flows of `flows.py` until you press Ctrl-C.

In production use `pyoco-worker`: it runs flows in separate processes and can kill one that ignores a cancel.
"""

from __future__ import annotations

import asyncio
import contextlib

from flows import resolve
from pyoco_server.config import NatsBackendConfig
from pyoco_server.logs import configure_logging
from pyoco_server.worker import PyocoNatsWorker


async def main() -> None:
    config = NatsBackendConfig.from_env()
    configure_logging(service="pyoco-server:worker", config=config)
    worker = await PyocoNatsWorker.connect(
        config=config, flow_resolver=resolve, worker_id="example", tags=[config.default_tag]
    )
    try:
        while True:
            await worker.run_once(timeout=1.0)  # the id of the run, or None
    finally:
        await worker.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
