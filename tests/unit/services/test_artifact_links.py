"""Links to artifacts: signed with keys that all gateways share, for 300 seconds, and not longer than that."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import artifact_id, request_of_artifact, ulid_of
from pyoco_server.domain.pdca.links import LINK_SEC, REFRESH_SEC, ROTATE_AFTER_SEC, signature_of
from pyoco_server.errors import ArtifactNotFound, InvalidLink
from pyoco_server.ports.pdca import StoredArtifact
from pyoco_server.services.pdca.artifacts import ArtifactLink, ArtifactService, SharedSigningKeys
from support.executions_in_memory import executions_of
from support.rechecks import request_in
from support.services import services_of
from support.world import USER, World

REPORT = StoredArtifact(media_type="text/markdown", data=b"# Report\n")


def artifacts_of(world: World) -> ArtifactService:
    """Those of one more gateway."""
    stores = world.stores
    return ArtifactService(stores=stores, executions=executions_of(world), keys=SharedSigningKeys(stores))


async def stored(world: World, tenant_id: str | None = None) -> str:
    """The id of an artifact of a request of this tenant."""
    request_id = await request_in(world, tenant_id)
    one = artifact_id(request_id, 1, 1)
    await world.truth.artifacts.put(one, REPORT)
    return one


async def test_a_link_leads_to_the_artifact_on_every_gateway(world: World) -> None:
    here, there, one = artifacts_of(world), artifacts_of(world), await stored(world)

    links = await asyncio.gather(*(service.link(one, tenant_filter=None) for service in (here, there) * 3))

    assert len({link.key_id for link in links}) == 1
    for service in (here, there):
        assert [await service.follow(link) for link in links] == [REPORT] * len(links)


async def test_a_link_works_until_it_expires(world: World) -> None:
    service, one = artifacts_of(world), await stored(world)
    link = await service.link(one, tenant_filter=None)

    world.clock.pass_time(LINK_SEC - 1.5)
    assert await service.follow(link) == REPORT
    world.clock.pass_time(1.5)

    with pytest.raises(InvalidLink):
        await service.follow(link)


@pytest.mark.parametrize("change", ["artifact_id", "expires", "key_id", "signature"])
async def test_a_changed_link_is_refused(world: World, change: str) -> None:
    service, one = artifacts_of(world), await stored(world)
    link = await service.link(one, tenant_filter=None)
    other = artifact_id(request_of_artifact(one), 1, 2)
    await world.truth.artifacts.put(other, REPORT)
    changed = {"artifact_id": other, "expires": link.expires + 1, "key_id": "0" * 8, "signature": link.signature[:-2]}

    with pytest.raises(InvalidLink):
        await service.follow(replace(link, **{change: changed[change]}))  # type: ignore[arg-type]


async def test_keys_rotate_and_the_previous_one_is_good_for_its_links(world: World) -> None:
    here, there, one = artifacts_of(world), artifacts_of(world), await stored(world)
    old = await here.link(one, tenant_filter=None)
    world.clock.pass_time(ROTATE_AFTER_SEC - 10.0)
    last = await there.link(one, tenant_filter=None)

    world.clock.pass_time(11.0)
    new = await here.link(one, tenant_filter=None)

    assert (last.key_id == old.key_id, new.key_id == old.key_id) == (True, False)
    for service in (here, there):
        assert await service.follow(last) == REPORT
        assert await service.follow(new) == REPORT


async def test_a_replaced_key_signs_nothing_that_is_accepted_later(world: World) -> None:
    service, one = artifacts_of(world), await stored(world)
    await service.link(one, tenant_filter=None)
    stolen = (await world.truth.signing_keys.get()).keys
    assert stolen is not None
    world.clock.pass_time(ROTATE_AFTER_SEC)
    await service.link(one, tenant_filter=None)
    world.clock.pass_time(LINK_SEC + REFRESH_SEC)
    forged = await forged_link(world, one, stolen.current.key_id)

    with pytest.raises(InvalidLink):
        await service.follow(forged)


async def forged_link(world: World, one: str, key_id: str) -> ArtifactLink:
    """A link that is signed correctly, with a key of the past."""
    keys = (await world.truth.signing_keys.get()).keys
    assert keys is not None
    assert keys.previous is not None
    expires = int(world.now() + 100)
    signature = signature_of(keys.previous, one, expires)
    return ArtifactLink(artifact_id=one, expires=expires, key_id=key_id, signature=signature)


async def test_another_tenants_artifact_and_an_unknown_one_do_not_exist(world: World) -> None:
    service, theirs = artifacts_of(world), await stored(world, "team-b")
    unknown = artifact_id(SystemIds().run_id(), 1, 1)
    missing = f"{theirs[:-1]}9"

    for one in (theirs, unknown, missing, theirs.lower(), "x", "../" + theirs, ""):
        with pytest.raises(ArtifactNotFound):
            await service.link(one, tenant_filter="team-a")
    assert (await service.link(theirs, tenant_filter="team-b")).artifact_id == theirs


async def test_the_artifacts_of_a_run_that_retention_removes_are_removed(world: World) -> None:
    one = await stored(world)
    services = services_of(world)
    await services.executions.cancel(request_of_artifact(one), None, USER)
    await world.catch_up()
    await world.maintenance.confirm_cancels()
    await world.catch_up()

    world.clock.pass_time(world.config.run_retention_sec + 1.0)
    await world.maintenance.remove_old_runs()

    assert await world.truth.artifacts.get(one) is None


def test_no_text_of_a_key_shows_its_secret(world: World) -> None:
    keys = SharedSigningKeys(world.stores)

    key = asyncio.run(keys.current())

    assert key.secret not in f"{key!r} {key} {keys._keys!r}"


@given(st.uuids(), st.integers(1, 2000), st.integers(1, 20))
def test_an_artifact_names_its_request(request: object, number: int, place: int) -> None:
    request_id = RunId(str(request))

    assert request_of_artifact(artifact_id(request_id, number, place)) == request_id
    assert artifact_id(request_id, number, place).startswith(ulid_of(request_id))
