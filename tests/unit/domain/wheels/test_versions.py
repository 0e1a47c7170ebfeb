"""Which wheel may follow which, and which are the latest."""

from __future__ import annotations

import pytest

from pyoco_server.domain.wheels.wheel import Wheel, check_newer, latest, parse_wheel_name
from pyoco_server.errors import WheelVersionConflict


def stored(name: str) -> Wheel:
    return Wheel(name=name, size_bytes=1, bucket="b", nuid=name, modified=0.0, sha256_hex=None)


@pytest.mark.parametrize("version", ["1.1", "1.0.post1", "1.0.1", "2.0a1", "1!0.1", "1.0+local"])
def test_a_newer_version_may_follow(version: str) -> None:
    check_newer(parse_wheel_name(f"demo-{version}-py3-none-any.whl"), [stored("demo-1.0-py3-none-any.whl")])


@pytest.mark.parametrize(
    "name",
    [
        "demo-1.10-py3-none-any.whl",
        "demo-1.10.0-py3-none-any.whl",
        "Demo-1.10-py3-none-any.whl",
        "demo-1.9-py3-none-any.whl",
        "demo-1.10rc1-py3-none-any.whl",
        "demo-1.10-2-py3-none-any.whl",
        "demo-1.10-cp312-cp312-win_amd64.whl",
    ],
)
def test_the_same_or_an_older_version_may_not_whatever_its_file_is_called(name: str) -> None:
    present = [stored("demo-1.0-py3-none-any.whl"), stored("demo-1.10-py3-none-any.whl")]

    with pytest.raises(WheelVersionConflict, match=r"demo-1.10-py3-none-any.whl is registered"):
        check_newer(parse_wheel_name(name), present)


def test_other_packages_and_things_that_are_no_wheels_are_not_in_the_way() -> None:
    present = [stored("other-9-py3-none-any.whl"), stored("demo_extra-9-py3-none-any.whl"), stored("notes.txt")]

    check_newer(parse_wheel_name("demo-1.0-py3-none-any.whl"), present)


def test_of_each_package_the_newest_version_counts_by_number_and_not_by_letter() -> None:
    names = ["demo-1.9-py3-none-any.whl", "demo-1.10-py3-none-any.whl", "Demo-1.2-py3-none-any.whl", "notes.txt"]
    names += ["other-1.0-py3-none-any.whl", "other-1.0-cp311-cp311-win_amd64.whl"]

    found = [wheel.name for wheel in latest([stored(name) for name in names])]

    assert found == ["demo-1.10-py3-none-any.whl", "other-1.0-cp311-cp311-win_amd64.whl", "other-1.0-py3-none-any.whl"]
