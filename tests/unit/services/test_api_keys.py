"""Administration of API keys: creation, lists by tenant, revocation."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.auth.api_keys import KeyId, Pepper, check
from pyoco_server.domain.auth.scopes import USUAL_SCOPES
from pyoco_server.domain.execution.events import Actor
from pyoco_server.errors import InvalidUsage
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.auth.api_keys import ApiKeys
from pyoco_server.services.context import CommandContext
from pyoco_server.stores import AuditLog, KeyStore
from pyoco_server.testing.broker import MemoryKeyValue, MemorySubjectLog
from support.clocks import ManualClock

PEPPER = Pepper("a pepper for tests")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def keys(clock: ManualClock) -> ApiKeys:
    ids = SystemIds()
    trail = AuditTrail(log=AuditLog(MemorySubjectLog()), clock=clock, ids=ids)
    context = CommandContext(actor=Actor(kind="operator", id="ann@host"))
    store = KeyStore(MemoryKeyValue())
    return ApiKeys(store=store, clock=clock, ids=ids, pepper=PEPPER, trail=trail, context=context)


async def test_a_created_key_is_accepted(keys: ApiKeys) -> None:
    made = await keys.hand_out("team-a", USUAL_SCOPES, name="ci", expires_at=2000.0)

    (stored,) = await keys.look_over()
    assert stored == made.record
    assert check(made.api_key, stored, PEPPER, now=1500.0).tenant_id == "team-a"
    assert made.api_key not in repr(made)


async def test_keys_are_unique(keys: ApiKeys) -> None:
    made = [await keys.hand_out("team-a", USUAL_SCOPES) for _ in range(100)]

    assert len({one.api_key for one in made}) == len({one.record.digest for one in made}) == 100


@pytest.mark.parametrize(
    ("tenant", "more"),
    [("a tenant", {}), ("", {}), ("team-a", {"name": ""}), ("team-a", {"name": "a\nb"}), ("t", {"expires_at": 1000.0})],
)
async def test_invalid_fields_create_no_key(keys: ApiKeys, tenant: str, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidUsage):
        await keys.hand_out(tenant, USUAL_SCOPES, **more)

    assert await keys.look_over(ended_too=True) == []


async def test_keys_are_listed_by_age_and_tenant_and_ended_ones_on_request(keys: ApiKeys, clock: ManualClock) -> None:
    made: list[KeyId] = []
    for tenant, expires_at in (("team-a", None), ("team-b", None), ("team-a", 1100.0), ("team-a", None)):
        made.append((await keys.hand_out(tenant, USUAL_SCOPES, expires_at=expires_at)).record.key_id)
        clock.pass_time(10)
    await keys.revoke(made[3])
    clock.pass_time(100)

    assert [record.key_id for record in await keys.look_over()] == made[:2]
    assert [record.key_id for record in await keys.look_over(tenant_id="team-a")] == made[:1]
    assert [record.key_id for record in await keys.look_over(ended_too=True)] == made


async def test_an_unknown_key_cannot_be_revoked(keys: ApiKeys) -> None:
    with pytest.raises(InvalidUsage, match="api-key list"):
        await keys.revoke(KeyId("f" * 16))
