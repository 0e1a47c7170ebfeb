"""Helpers for tests: run a flow as a worker does, and in-memory implementations of the ports.

`run_flow` runs a flow in the calling process with the code of a worker's runner, without a broker, gateway or worker:
coroutines are awaited, task timeouts apply, and outputs are stored as the server would store them.

    >>> from pyoco import Flow, task
    >>> from pyoco_server.testing import run_flow
    >>>
    >>> @task
    ... def load(count: int) -> list[int]:
    ...     return list(range(count))
    >>> @task
    ... def total(load: list[int]) -> int:
    ...     return sum(load)
    >>>
    >>> result = run_flow(Flow("sums") >> load >> total, {"count": 5})
    >>> result.status
    'COMPLETED'
    >>> result.outputs
    {'load': [0, 1, 2, 3, 4], 'total': 10}

A failed run does not raise; `result.error` describes the exception and `result.steps` has every step in order:

    >>> result = run_flow(Flow("sums") >> load >> total, {"count": "five"})
    >>> result.status, result.error
    ('FAILED', "TypeError: 'str' object cannot be interpreted as an integer")

The modules `broker`, `job_queue`, `index`, `signals` and `wheel_store` implement the ports of `pyoco_server.ports` in
memory, with the guarantees of the real ones: the same contract suites test both.
"""

from __future__ import annotations

from pyoco_server.testing.flows import FlowResult as FlowResult
from pyoco_server.testing.flows import run_flow as run_flow
