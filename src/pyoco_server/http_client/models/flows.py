"""Answers about flows. A newer gateway may send more fields than are listed here."""

from __future__ import annotations

from typing import TypedDict


class FlowParam(TypedDict):
    """A parameter of a flow."""

    name: str
    required: bool


class NamedRun(TypedDict):
    """A run and its status."""

    run_id: str
    status: str


class RecentRuns(TypedDict):
    """Figures about the last runs of a flow; times are of the completed ones, in seconds."""

    runs: int
    statuses: dict[str, int]
    last_submitted_at: float | None
    median_sec: float | None
    p95_sec: float | None
    last: list[NamedRun]


class FlowVersion(TypedDict):
    """One announcement of a flow: without nodes its graph is unknown, without edges its path is decided by the run."""

    tags: list[str]
    workers: int
    params: list[FlowParam] | None
    takes_others: bool
    nodes: list[str]
    edges: list[list[str]]


class FlowSummary(TypedDict):
    """A flow in a list; `params` is None when they are unknown."""

    name: str
    tags: list[str]
    workers: int
    params: list[FlowParam] | None
    takes_others: bool
    recent: RecentRuns


class FlowDetails(FlowSummary):
    """A flow with every different announcement of it, the newest first."""

    versions: list[FlowVersion]


class FlowPage(TypedDict):
    """One page of a list; `next_cursor` is None on the last."""

    items: list[FlowSummary]
    next_cursor: str | None
