"""The circuit breaker of the requests to Airflow."""

from __future__ import annotations

import pytest

from pyoco_server.adapters.airflow.circuit import FAILURES_TO_OPEN, LONGEST_PAUSE_SEC, Circuit
from pyoco_server.errors import EngineDown, EngineMisconfigured
from support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def circuit(clock: ManualClock) -> Circuit:
    return Circuit(clock)


def fail(circuit: Circuit, times: int = FAILURES_TO_OPEN) -> None:
    for _ in range(times):
        circuit.admit()
        circuit.failed(EngineDown("it is away"))


def test_failures_with_a_success_between_them_do_not_open_it(circuit: Circuit) -> None:
    for _ in range(3 * FAILURES_TO_OPEN):
        fail(circuit, FAILURES_TO_OPEN - 1)
        circuit.admit()
        circuit.succeeded()

    assert circuit.state.value == "closed"


def test_an_open_one_refuses_with_the_failure_that_opened_it(circuit: Circuit) -> None:
    fail(circuit, FAILURES_TO_OPEN - 1)
    circuit.failed(EngineMisconfigured("the password is wrong"))

    with pytest.raises(EngineMisconfigured, match="the password is wrong"):
        circuit.admit()

    assert circuit.state.value == "open"


def test_after_a_pause_one_request_probes(circuit: Circuit, clock: ManualClock) -> None:
    fail(circuit)
    clock.pass_time(LONGEST_PAUSE_SEC)

    circuit.admit()

    assert circuit.state.value == "half_open"
    with pytest.raises(EngineDown):
        circuit.admit()
    circuit.succeeded()
    assert circuit.state.value == "closed"


def test_a_probe_without_a_verdict_makes_room_for_another(circuit: Circuit, clock: ManualClock) -> None:
    fail(circuit)
    clock.pass_time(LONGEST_PAUSE_SEC)
    circuit.admit()

    circuit.abandoned()

    circuit.admit()


def test_pauses_grow_up_to_the_longest(circuit: Circuit, clock: ManualClock) -> None:
    fail(circuit)
    for _ in range(100):
        clock.pass_time(LONGEST_PAUSE_SEC)
        circuit.admit()
        circuit.failed(EngineDown())

    clock.pass_time(LONGEST_PAUSE_SEC - 0.1)
    assert circuit.state.value == "open"
    clock.pass_time(0.1)
    assert circuit.state.value == "half_open"
