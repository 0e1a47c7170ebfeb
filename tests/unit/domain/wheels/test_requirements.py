"""Which wheels a worker needs: for its tags, the latest it can run, and nothing that it stands on itself."""

from __future__ import annotations

from itertools import permutations

import pytest
from packaging.tags import Tag

from pyoco_server.domain.wheels.requirements import Candidate, Need, in_order_of_need, needed
from pyoco_server.domain.wheels.wheel import Wheel

NATIVE, PURE = Tag("cp311", "cp311", "linux_x86_64"), Tag("py3", "none", "any")


def stored(name: str, *tags: str, sha256_hex: str | None = "00ff") -> Wheel:
    return Wheel(name=name, size_bytes=1, bucket="b", nuid=name, modified=0.0, sha256_hex=sha256_hex, tags=tags)


def need(*wheels: Wheel, tags: tuple[str, ...] = ("default",)) -> Need:
    return needed(wheels, tags=set(tags), supported=(NATIVE, PURE), own={"pyoco": "0.8.0", "PyYAML": "6.0.3"})


def latest(found: Need) -> list[str]:
    return [candidates[0].name for candidates in found.packages.values()]


def test_a_wheel_without_tags_is_for_everybody_and_one_with_tags_for_those_who_share_one() -> None:
    wheels = [
        stored("a-1-py3-none-any.whl"),
        stored("b-1-py3-none-any.whl", "gpu", "x"),
        stored("c-1-py3-none-any.whl", "y"),
    ]

    assert latest(need(*wheels, tags=("gpu", "cpu"))) == ["a-1-py3-none-any.whl", "b-1-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("demo-1.10-py3-none-any.whl", "demo-1.9-py3-none-any.whl"),
        ("demo-1.0.post1-py3-none-any.whl", "demo-1.0-py3-none-any.whl"),
        ("demo-1.0-py3-none-any.whl", "demo-1.0rc1-py3-none-any.whl"),
        ("demo-1.0-cp311-cp311-linux_x86_64.whl", "demo-1.0-py3-none-any.whl"),
        ("demo-1.1-py3-none-any.whl", "demo-1.0-cp311-cp311-linux_x86_64.whl"),
        ("demo-1.0-2-py3-none-any.whl", "demo-1.0-1-py3-none-any.whl"),
        ("demo-1.0-1-py3-none-any.whl", "demo-1.0-py3-none-any.whl"),
    ],
)
def test_of_two_wheels_of_a_package_the_newer_then_the_closer_one_is_taken(better: str, worse: str) -> None:
    for order in permutations([stored(better), stored(worse)]):
        (candidates,) = need(*order).packages.values()

        assert [one.name for one in candidates] == [better, worse]


def test_names_that_differ_in_spelling_only_are_one_package() -> None:
    found = need(stored("Demo_Pkg-1-py3-none-any.whl"), stored("demo.pkg-2-py3-none-any.whl"))

    assert latest(found) == ["demo.pkg-2-py3-none-any.whl"]


def test_the_latest_that_the_worker_can_run_is_taken_and_a_later_one_is_skipped() -> None:
    found = need(stored("demo-1-py3-none-any.whl"), stored("demo-2-cp311-cp311-win_amd64.whl"))

    assert latest(found) == ["demo-1-py3-none-any.whl"]
    ((name, reason),) = [(one.wheel_name, one.reason) for one in found.skipped]
    assert name == "demo-2-cp311-cp311-win_amd64.whl"
    assert "win_amd64" in reason


@pytest.mark.parametrize(
    ("wheel", "reason"),
    [
        (stored("pyoco-9-py3-none-any.whl"), "pyoco 0.8.0"),
        (stored("pyyaml-9-py3-none-any.whl"), "pyyaml 6.0.3"),
        (stored("demo-1-py3-none-any.whl", sha256_hex=None), "sha256"),
        (stored("something-else.txt"), "not the name of a wheel"),
        (stored("demo-1.0-1/../../../up-py3-none-any.whl"), "not the name of a wheel"),
    ],
)
def test_what_must_not_be_installed_is_skipped_with_the_reason(wheel: Wheel, reason: str) -> None:
    found = need(wheel)

    assert found.packages == {}
    assert [(one.wheel_name, reason in one.reason) for one in found.skipped] == [(wheel.name, True)]


def test_a_wheel_that_is_not_for_this_worker_is_not_even_skipped() -> None:
    assert need(stored("something-else.txt", "gpu")) == Need(packages={}, skipped=())


def heads(*names: str) -> list[Candidate]:
    return [candidates[0] for candidates in need(*map(stored, names)).packages.values()]


def test_what_others_require_comes_before_them() -> None:
    upper, middle, lower = heads("a-1-py3-none-any.whl", "b-1-py3-none-any.whl", "c-1-py3-none-any.whl")
    requires = {upper.name: ["B"], middle.name: ["absent", "c"], lower.name: []}

    assert in_order_of_need([upper, middle, lower], requires) == (lower, middle, upper)


def test_wheels_that_require_each_other_are_all_placed() -> None:
    one, other = heads("a-1-py3-none-any.whl", "b-1-py3-none-any.whl")

    assert set(in_order_of_need([one, other], {one.name: ["b"], other.name: ["a"]})) == {one, other}
