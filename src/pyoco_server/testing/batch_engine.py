"""An engine of batches in memory: its batches go on only as a test says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import Batch
from pyoco_server.domain.pdca.strategies import Health, StrategyResult
from pyoco_server.errors import EngineDown
from pyoco_server.ports.pdca import BatchOutcome, BatchState, Report

Key = tuple[RunId, int]
_ENDED = (BatchState.SUCCEEDED, BatchState.FAILED, BatchState.CANCELED)


class MemoryBatchEngine:
    """See `ports.pdca.BatchEngine`. `starts` counts what a start had an effect on; `is_down` refuses every call."""

    def __init__(self, *, concurrency: int = 100) -> None:
        self.name = "memory"
        self.concurrency = concurrency
        self.poll_interval_sec = 0.01
        self.is_down = False
        self.stops_at_once = True
        self.starts: Counter[Key] = Counter()
        self._states: dict[Key, BatchState] = {}
        self._outcomes: dict[Key, BatchOutcome] = {}

    async def check(self) -> None:
        self._answer()

    def run_id(self, batch: Batch) -> str:
        return f"memory-{batch.request_id}-{batch.number}"

    async def start(self, batch: Batch) -> None:
        self._answer()
        if _key(batch) not in self._states:
            self._states[_key(batch)] = BatchState.RUNNING
            self.starts[_key(batch)] += 1

    async def states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        self._answer()
        return {batch.number: self._states.get(_key(batch), BatchState.MISSING) for batch in batches}

    async def outcome(self, batch: Batch) -> BatchOutcome:
        self._answer()
        return self._outcomes.get(_key(batch)) or succeeded(batch)

    async def cancel(self, batch: Batch) -> None:
        self._answer()
        if self._states.get(_key(batch)) not in _ENDED and self.stops_at_once:
            self._states[_key(batch)] = BatchState.CANCELED

    def state(self, request_id: RunId, number: int) -> BatchState:
        return self._states.get((request_id, number), BatchState.MISSING)

    def set_state(self, request_id: RunId, number: int, state: BatchState, outcome: BatchOutcome | None = None) -> None:
        """Move a batch; MISSING forgets it."""
        if state is BatchState.MISSING:
            self._states.pop((request_id, number), None)
        else:
            self._states[request_id, number] = state
        if outcome is not None:
            self._outcomes[request_id, number] = outcome

    def running(self) -> list[Key]:
        """The batches that have not ended."""
        return [key for key, state in self._states.items() if state not in _ENDED]

    def end_all(self) -> None:
        """End what runs with success."""
        for key, state in self._states.items():
            if state not in _ENDED:
                self._states[key] = BatchState.SUCCEEDED

    def _answer(self) -> None:
        if self.is_down:
            raise EngineDown


def succeeded(batch: Batch) -> BatchOutcome:
    """The outcome of a batch whose strategies are all healthy, with one report."""
    results = tuple(StrategyResult(strategy=strategy, health=Health.HEALTHY) for strategy in batch.strategies)
    return BatchOutcome(results=results, reports=(Report(name="report.md", media_type="text/markdown", data=b"# ok"),))


def _key(batch: Batch) -> Key:
    return batch.request_id, batch.number
