"""The cost of settings: processor time of gateways with and without them, in alternating bursts."""

import contextlib
from collections.abc import Mapping

import psutil

from bench.load import Request, Tool, ask_for
from bench.measures import submit_body
from bench.systems import Ours, Stack
from support.collector import collecting

CONNECTIONS = 64
BURST_SEC = 1.0
# The highest that is accepted; the burst of a minute outlasts the measurement.
NEVER_REACHED = "60000"


class Configured(Ours):
    """This product with other settings than the defaults."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._configured = dict(settings)

    def _settings(self) -> dict[str, str]:
        return self._configured


def cost_of_settings(plain: Stack, client: Tool, *, seconds: float) -> dict[str, float]:
    """Processor time of the gateway for a submit with each, as a multiple of that without it."""
    request = Request(path="/runs", body=submit_body("one"))
    with collecting() as collector, contextlib.ExitStack() as running:
        sides: dict[str, Stack] = {"plain": plain}
        for name, settings in _variants(collector.port).items():
            sides[name] = configured = Configured(settings)
            configured.start("interval")
            running.callback(configured.stop)
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


def _variants(collector_port: int) -> dict[str, dict[str, str]]:
    exporter = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector_port}"}
    return {
        # As it is configured by most, and with every trace recorded.
        "traces.default": exporter,
        "traces.all": exporter | {"OTEL_TRACES_SAMPLER": "parentbased_always_on"},
        "rate_limit": {"PYOCO_RATE_LIMIT_API_WRITE_PER_MIN": NEVER_REACHED},
        "without access log": {"PYOCO_ACCESS_LOG_LEVEL": "OFF"},
    }


def _multiples(sec_per_submit: Mapping[str, float]) -> dict[str, float]:
    plain = sec_per_submit["plain"]
    added = {name: sec_per_submit[name] / plain for name in ("traces.default", "traces.all", "rate_limit")}
    return added | {"access_log": plain / sec_per_submit["without access log"]}


def _processor_sec(stack: Stack) -> float:
    times = psutil.Process(stack.gateway_pid).cpu_times()
    return times.user + times.system
