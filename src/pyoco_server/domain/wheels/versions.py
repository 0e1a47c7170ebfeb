"""Which wheel may be added to those that are there, and which of them are the latest."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.domain.wheels.names import WheelName, parse_wheel_name
from pyoco_server.domain.wheels.wheel import Wheel
from pyoco_server.errors import InvalidRequest, WheelVersionConflict


def check_newer(new: WheelName, present: Sequence[Wheel]) -> None:
    """Refuse a version that is not newer than every registered one of the same package, whatever its file is called.

    So there is one file per version: a second platform's wheel, or another build number, needs a version of its own.
    """
    for wheel in present:
        name = _parsed(wheel)
        if name is not None and name.package == new.package and name.version >= new.version:
            raise WheelVersionConflict(
                f"{new.file_name}: {wheel.name} is registered, and only a version above {name.version} may follow",
                wheel=new.file_name,
                registered=wheel.name,
            )


def latest(wheels: Sequence[Wheel]) -> list[Wheel]:
    """Of each package the wheels of its newest version, by name; what is not named like a wheel is left out."""
    newest: dict[str, list[tuple[WheelName, Wheel]]] = {}
    for wheel in wheels:
        name = _parsed(wheel)
        if name is None:
            continue
        rivals = newest.get(name.package, [])
        if not rivals or name.version > rivals[0][0].version:
            newest[name.package] = [(name, wheel)]
        elif name.version == rivals[0][0].version:
            rivals.append((name, wheel))
    return sorted((wheel for rivals in newest.values() for _, wheel in rivals), key=lambda wheel: wheel.name)


def _parsed(wheel: Wheel) -> WheelName | None:
    """None for something that another client of the broker has put there."""
    try:
        return parse_wheel_name(wheel.name)
    except InvalidRequest:
        return None
