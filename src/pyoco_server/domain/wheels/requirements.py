"""Which wheels of the registry a worker needs, and why it skips the others. Installs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from pyoco_server.domain.wheels.wheel import Wheel, parse_wheel_name
from pyoco_server.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A wheel that this worker can install; a lower `place` is a better match for its interpreter."""

    wheel: Wheel
    package: NormalizedName
    version: Version
    build: tuple[()] | tuple[int, str]
    place: int
    sha256_hex: str

    @property
    def name(self) -> str:
        return self.wheel.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A wheel for this worker that is not installed, and why."""

    wheel_name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The candidates per package, best first; the others are fallbacks if the best cannot be installed."""

    packages: Mapping[NormalizedName, Sequence[Candidate]]
    skipped: tuple[LeftOut, ...]


def needed(
    wheels: Iterable[Wheel], *, tags: AbstractSet[str], supported: Sequence[Tag], own: Mapping[str, str]
) -> Need:
    """What a worker with these tags should install; `supported` are the tags of its interpreter, best first.

    The wheels are those of one tenant and the shared ones. `own` are the packages that the worker itself needs, with
    their versions: no wheel replaces them.
    """
    rank = {tag: place for place, tag in enumerate(supported)}
    runs_on = {canonicalize_name(name): version for name, version in own.items()}
    found: dict[NormalizedName, list[Candidate]] = {}
    skipped = []
    for wheel in sorted(wheels, key=lambda wheel: wheel.name):
        if wheel.is_for(frozenset(tags)):
            candidate = _candidate(wheel, rank, runs_on)
            if isinstance(candidate, Candidate):
                found.setdefault(candidate.package, []).append(candidate)
            else:
                skipped.append(LeftOut(wheel_name=wheel.name, reason=candidate))
    packages = {package: _best_first(_own_or_shared(candidates)) for package, candidates in sorted(found.items())}
    return Need(packages=packages, skipped=tuple(skipped))


def _own_or_shared(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """A tenant's package hides the shared one of that name, whatever the versions: no upload by others changes it."""
    return [one for one in candidates if one.wheel.tenant_id is not None] or candidates


def _best_first(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """In pip's order of preference: version, match with the interpreter, build number."""
    return tuple(sorted(candidates, key=lambda one: (one.version, -one.place, one.build), reverse=True))


def _candidate(wheel: Wheel, rank: Mapping[Tag, int], own: Mapping[NormalizedName, str]) -> Candidate | str:
    """The candidate, or the reason why the wheel is skipped."""
    try:
        parse_wheel_name(wheel.name)  # stricter: the name becomes a file name
        package, version, build, built_for = parse_wheel_filename(wheel.name)
    except (InvalidRequest, InvalidWheelFilename):
        return "not the name of a wheel"
    if package in own:
        return f"workers run on {package} {own[package]} of their own; upgrade the worker instead"
    if wheel.sha256_hex is None:
        return "the registry has no sha256 to check it against; upload it again"
    places = [rank[tag] for tag in built_for if tag in rank]
    if not places:
        built = ", ".join(sorted(map(str, built_for)))
        return f"built for {built}, which this worker cannot run (its own is {next(iter(rank), None)})"
    return Candidate(
        wheel=wheel, package=package, version=version, build=build, place=min(places), sha256_hex=wheel.sha256_hex
    )


def in_order_of_need(candidates: Sequence[Candidate], requires: Mapping[str, Sequence[str]]) -> tuple[Candidate, ...]:
    """The same candidates, each after those it requires; `requires` maps a wheel to the packages it names."""
    by_package = {candidate.package: candidate for candidate in candidates}
    placed: dict[str, Candidate] = {}
    visited: set[str] = set()
    # Not by recursion: a tenant may register a chain of any length.
    waiting = [(one, iter(requires.get(one.name, ()))) for one in reversed(candidates)]
    while waiting:
        candidate, required = waiting[-1]
        visited.add(candidate.name)
        others = (by_package.get(canonicalize_name(name)) for name in required)
        # One that was visited is placed already, or there is a cycle: then one of them has to come first.
        other = next((one for one in others if one is not None and one.name not in visited), None)
        if other is not None:
            waiting.append((other, iter(requires.get(other.name, ()))))
        else:
            waiting.pop()
            placed.setdefault(candidate.name, candidate)
    return tuple(placed.values())
