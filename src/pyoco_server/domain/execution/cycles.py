"""Which nodes can never be reached because they wait for themselves: on a cycle, or behind one. Knows names only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableNodes(Generic[Name]):
    """Groups of nodes that wait for each other (or one for itself), and the nodes that only wait for such a group."""

    circles: tuple[Sequence[Name], ...]
    behind: Sequence[Name]


def unreachable_nodes(names: Iterable[Name], edges: Iterable[tuple[Name, Name]]) -> UnreachableNodes[Name]:
    """The nodes that no walk from the roots reaches, each group in the order of the names.

    The time is that of looking at each node and edge a few times, whatever they look like; nothing recurses.
    """
    order = list(names)
    after: dict[Name, list[Name]] = {name: [] for name in order}
    for source, target in edges:
        after[source].append(target)
    left = _without_reached(after)
    circles = _circles(left)
    on_circle = {name for circle in circles for name in circle}
    return UnreachableNodes(circles=circles, behind=[name for name in left if name not in on_circle])


def _without_reached(after: Mapping[Name, list[Name]]) -> dict[Name, list[Name]]:
    """What is left when whatever waits for nothing any more is taken away, again and again."""
    waiting = dict.fromkeys(after, 0)
    for targets in after.values():
        for target in targets:
            waiting[target] += 1
    free = [name for name, count in waiting.items() if count == 0]
    while free:
        name = free.pop()
        del waiting[name]
        for target in after[name]:
            waiting[target] -= 1
            if waiting[target] == 0:
                free.append(target)
    return {name: after[name] for name in waiting}


def _circles(after: Mapping[Name, list[Name]]) -> tuple[Sequence[Name], ...]:
    """The groups within which each node waits for each (Kosaraju: there and back); one alone only if for itself."""
    before: dict[Name, list[Name]] = {name: [] for name in after}
    for source, targets in after.items():
        for target in targets:
            before[target].append(source)
    places = {name: place for place, name in enumerate(after)}
    grouped: set[Name] = set()
    circles = []
    for start in reversed(_by_end(after)):
        group = _spread(start, before, grouped)
        if len(group) > 1 or (group and start in after[start]):
            circles.append(sorted(group, key=places.__getitem__))
    return tuple(sorted(circles, key=lambda circle: places[circle[0]]))


def _spread(start: Name, along: Mapping[Name, list[Name]], taken: set[Name]) -> list[Name]:
    """What can be reached from here and was not taken before; takes it."""
    if start in taken:
        return []
    taken.add(start)
    found = [start]
    for name in found:
        fresh = [one for one in dict.fromkeys(along[name]) if one not in taken]
        taken.update(fresh)
        found += fresh
    return found


def _by_end(after: Mapping[Name, list[Name]]) -> list[Name]:
    """The nodes in the order in which a walk into the depth is done with them."""
    seen: set[Name] = set()
    done: list[Name] = []
    for root in after:
        walk = [] if root in seen else [(root, iter(after[root]))]
        seen.add(root)
        while walk:
            name, rest = walk[-1]
            step = next((target for target in rest if target not in seen), None)
            if step is None:
                done.append(name)
                walk.pop()
            else:
                seen.add(step)
                walk.append((step, iter(after[step])))
    return done
