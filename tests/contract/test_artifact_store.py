"""The guarantees of every ArtifactStore."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import artifact_id
from pyoco_server.errors import RequestTooLarge
from pyoco_server.ports.pdca import MAX_ARTIFACT_BYTES, StoredArtifact
from support.stores import Ports

REPORT = StoredArtifact(media_type="text/markdown", data=b"# Report\n")
OTHER = StoredArtifact(media_type="text/csv", data=b"a,b\n")


def new_request() -> RunId:
    return SystemIds().run_id()


async def test_a_stored_artifact_is_read_unchanged(ports: Ports) -> None:
    one = artifact_id(new_request(), 1, 1)

    assert await ports.artifacts.get(one) is None
    await ports.artifacts.put(one, REPORT)

    assert await ports.artifacts.get(one) == REPORT


@pytest.mark.parametrize("size", [0, MAX_ARTIFACT_BYTES])
async def test_an_artifact_may_be_empty_and_as_large_as_the_limit(ports: Ports, size: int) -> None:
    one, stored = artifact_id(new_request(), 1, 1), StoredArtifact(media_type="text/plain", data=bytes(size))

    await ports.artifacts.put(one, stored)

    assert await ports.artifacts.get(one) == stored


async def test_a_larger_one_is_refused(ports: Ports) -> None:
    one = artifact_id(new_request(), 1, 1)

    with pytest.raises(RequestTooLarge):
        await ports.artifacts.put(one, StoredArtifact(media_type="text/plain", data=bytes(MAX_ARTIFACT_BYTES + 1)))

    assert await ports.artifacts.get(one) is None


async def test_two_gateways_store_the_same_artifact_once(ports: Ports) -> None:
    one = artifact_id(new_request(), 1, 1)

    await asyncio.gather(*(ports.artifacts.put(one, REPORT) for _ in range(5)))
    await ports.artifacts.put(one, REPORT)

    assert await ports.artifacts.get(one) == REPORT


async def test_a_reader_never_gets_a_mix_of_two_contents(ports: Ports) -> None:
    one = artifact_id(new_request(), 1, 1)

    await asyncio.gather(*(ports.artifacts.put(one, stored) for stored in (REPORT, OTHER) * 3))

    assert await ports.artifacts.get(one) in (REPORT, OTHER)


async def test_the_artifacts_of_a_request_are_removed_together_and_no_others(ports: Ports) -> None:
    removed, kept = new_request(), new_request()
    ids = [artifact_id(removed, number, place) for number in (1, 2, 2000) for place in (1, 2)]
    other = artifact_id(kept, 1, 1)
    for one in [*ids, other]:
        await ports.artifacts.put(one, REPORT)

    await ports.artifacts.delete_of(removed)
    await ports.artifacts.delete_of(new_request())

    assert [await ports.artifacts.get(one) for one in ids] == [None] * len(ids)
    assert await ports.artifacts.get(other) == REPORT
    await ports.artifacts.put(ids[0], OTHER)
    assert await ports.artifacts.get(ids[0]) == OTHER
