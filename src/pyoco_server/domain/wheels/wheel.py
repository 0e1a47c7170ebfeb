"""A wheel as the registry holds it (contract: WheelArtifact); its bytes are the store's business."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One stored file. `nuid` is new with each upload; without tags it is for every worker."""

    name: str
    size_bytes: int
    bucket: str
    nuid: str
    modified: float
    sha256_hex: str | None
    tags: tuple[str, ...] = ()

    def is_for(self, tags: frozenset[str]) -> bool:
        """Whether a worker that serves these tags is meant."""
        return not self.tags or not tags.isdisjoint(self.tags)
