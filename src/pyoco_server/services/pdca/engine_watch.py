"""Looks at the engine of batches at the start of a gateway and every few seconds, for its log and for probes.

A request is accepted on the strength of its own check, not of this one.
"""

from __future__ import annotations

import logging

from pyoco_server.errors import EngineDown, EngineMisconfigured
from pyoco_server.ports.pdca import BatchEngine
from pyoco_server.services.loops import Periodic, log_and_continue

logger = logging.getLogger(__name__)

LOOK_EVERY_SEC = 5.0


class EngineWatch:
    """The latest known state of an engine; each change is logged once."""

    def __init__(self, engine: BatchEngine) -> None:
        self._engine = engine
        self.was_checked = False
        self.fault: EngineDown | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        name = "look at the engine of batches"
        with log_and_continue(name):
            await self.look()
        await Periodic(name, LOOK_EVERY_SEC, self.look).run()

    async def look(self) -> None:
        before = self.fault
        try:
            await self._engine.check()
            self.fault = None
        except EngineDown as fault:
            self.fault = fault
        self.was_checked = True
        if self.fault is None:
            if before is not None:
                logger.info("batch engine works again", extra={"engine": self._engine.name})
        elif before is None or before.detail != self.fault.detail:
            facts = {"engine": self._engine.name, "detail": self.fault.detail, **self.fault.ids()}
            if isinstance(self.fault, EngineMisconfigured):
                logger.error("batch engine is not set up", extra=facts)
            else:
                logger.warning("batch engine is down", extra=facts)
