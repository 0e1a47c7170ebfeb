"""The cost of traces: processor time of gateways that export traces and of one that does not, in alternating bursts."""

import contextlib
from collections.abc import Mapping

import psutil

from bench.load import Request, Tool, ask_for
from bench.measures import submit_body
from bench.systems import Ours, Stack
from support.collector import collecting

CONNECTIONS = 64
BURST_SEC = 1.0
# As it is configured by most, and with every trace recorded.
SAMPLERS = {"default": "", "all": "parentbased_always_on"}


class Traced(Ours):
    """This product with an exporter."""

    def __init__(self, collector_port: int, sampler: str) -> None:
        super().__init__()
        self._exporter = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector_port}",
            "OTEL_TRACES_SAMPLER": sampler,
        }

    def _settings(self) -> dict[str, str]:
        return self._exporter


def cost_of_tracing(plain: Stack, client: Tool, *, seconds: float) -> dict[str, float]:
    """Processor time of the gateway for a submit with traces, as a multiple of that without, by sampler."""
    request = Request(path="/runs", body=submit_body("one"))
    with collecting() as collector, contextlib.ExitStack() as running:
        sides: dict[str, Stack] = {"without": plain}
        for name, sampler in SAMPLERS.items():
            sides[name] = traced = Traced(collector.port, sampler)
            traced.start("interval")
            running.callback(traced.stop)
        used = dict.fromkeys(sides, 0.0)
        answered = dict.fromkeys(sides, 0)
        for turn in range(max(4, round(2 * seconds))):
            for name, stack in sides.items() if turn % 2 else reversed(sides.items()):
                before = _processor_sec(stack)
                load = ask_for(client, stack.port, request, connections=CONNECTIONS, seconds=BURST_SEC)
                if turn:  # the first burst warms up
                    used[name] += _processor_sec(stack) - before
                    answered[name] += load.require_clean().requests
    return _multiples({name: used[name] / answered[name] for name in sides})


def _multiples(sec_per_submit: Mapping[str, float]) -> dict[str, float]:
    return {name: sec_per_submit[name] / sec_per_submit["without"] for name in SAMPLERS}


def _processor_sec(stack: Stack) -> float:
    times = psutil.Process(stack.gateway_pid).cpu_times()
    return times.user + times.system
