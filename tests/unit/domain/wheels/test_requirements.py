"""Wheels of a worker: those of its tags, the latest it can install, and none that it already provides."""

from __future__ import annotations

from itertools import pairwise, permutations

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


def test_a_wheel_is_for_workers_that_share_a_tag_and_without_tags_for_all() -> None:
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
def test_the_newer_then_the_more_specific_wheel_is_taken(better: str, worse: str) -> None:
    for order in permutations([stored(better), stored(worse)]):
        (candidates,) = need(*order).packages.values()

        assert [one.name for one in candidates] == [better, worse]


def test_spellings_of_a_name_are_one_package() -> None:
    found = need(stored("Demo_Pkg-1-py3-none-any.whl"), stored("demo.pkg-2-py3-none-any.whl"))

    assert latest(found) == ["demo.pkg-2-py3-none-any.whl"]


def test_the_latest_installable_version_is_taken_and_later_ones_are_skipped() -> None:
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
def test_a_forbidden_wheel_is_skipped_with_the_reason(wheel: Wheel, reason: str) -> None:
    found = need(wheel)

    assert found.packages == {}
    assert [(one.wheel_name, reason in one.reason) for one in found.skipped] == [(wheel.name, True)]


def test_a_wheel_for_other_workers_is_not_reported_as_skipped() -> None:
    assert need(stored("something-else.txt", "gpu")) == Need(packages={}, skipped=())


def heads(*names: str) -> list[Candidate]:
    return [candidates[0] for candidates in need(*map(stored, names)).packages.values()]


def test_requirements_come_before_their_dependents() -> None:
    upper, middle, lower = heads("a-1-py3-none-any.whl", "b-1-py3-none-any.whl", "c-1-py3-none-any.whl")
    requires = {upper.name: ["B"], middle.name: ["absent", "c"], lower.name: []}

    assert in_order_of_need([upper, middle, lower], requires) == (lower, middle, upper)


def test_a_chain_of_requirements_may_have_any_length() -> None:
    chain = heads(*(f"p{number:04}-1-py3-none-any.whl" for number in range(2_000)))
    requires = {one.name: [other.package] for one, other in pairwise(chain)}

    assert in_order_of_need(chain, requires) == tuple(reversed(chain))


def test_wheels_with_cyclic_requirements_are_all_included() -> None:
    one, other = heads("a-1-py3-none-any.whl", "b-1-py3-none-any.whl")

    assert set(in_order_of_need([one, other], {one.name: ["b"], other.name: ["a"]})) == {one, other}
