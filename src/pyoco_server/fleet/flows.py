"""Flows as workers announce them: names and what follows what; how they are run is the workers' own business. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedFlow:
    """A flow that workers serve, and the routing tags under which they do."""

    name: str
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
