"""Scopes and callers: permissions and visible tenants."""

from __future__ import annotations

import pytest

from pyoco_server.domain.auth.caller import ANYONE, Caller, is_tenant_id
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope, known_scopes, parse_scopes, scope_names
from pyoco_server.errors import InvalidUsage, ScopeMissing


def test_scopes_survive_a_round_trip() -> None:
    text = ",".join(scope_names(EVERY_SCOPE))

    assert parse_scopes(text) == EVERY_SCOPE
    assert parse_scopes(" runs:read , runs:read ") == {Scope.RUNS_READ}


@pytest.mark.parametrize("text", ["", " , ", "runs:raed", "runs:read runs:write", "RUNS:READ"])
def test_an_unknown_scope_is_refused_with_the_valid_ones(text: str) -> None:
    with pytest.raises(InvalidUsage, match="accepted: runs:read, runs:write"):
        parse_scopes(text)


def test_scopes_of_other_services_are_ignored() -> None:
    assert known_scopes(["openid", "runs:read", "", "runs"]) == {Scope.RUNS_READ}


def test_admin_may_do_everything_and_sees_every_tenant() -> None:
    admin = Caller(tenant_id="ops", scopes=frozenset({Scope.ADMIN}))

    admin.require(EVERY_SCOPE)
    assert admin.tenant_filter is None
    assert ANYONE.tenant_filter is None


def test_other_callers_see_their_own_tenant_only() -> None:
    assert Caller(tenant_id="team-a", scopes=EVERY_SCOPE - {Scope.ADMIN}).tenant_filter == "team-a"


@pytest.mark.parametrize("tenant", [None, "", "a b"])
def test_a_caller_without_admin_needs_a_tenant(tenant: str | None) -> None:
    with pytest.raises(ValueError, match="tenant"):
        Caller(name="ann", tenant_id=tenant, scopes=frozenset({Scope.RUNS_READ}))


def test_a_missing_scope_is_named() -> None:
    caller = Caller(name="ann", tenant_id="team-a", scopes=frozenset({Scope.RUNS_READ}))

    caller.require(frozenset({Scope.RUNS_READ}))
    caller.require(frozenset())
    with pytest.raises(ScopeMissing, match="runs:cancel"):
        caller.require(frozenset({Scope.RUNS_READ, Scope.RUNS_CANCEL}))


@pytest.mark.parametrize("text", ["team-a", "a", "A.b_c-9", "x" * 64])
def test_a_tenant_is_one_word(text: str) -> None:
    assert is_tenant_id(text)


@pytest.mark.parametrize("value", ["", "x" * 65, "a b", "a/b", "a\n", "é", None, 7, ["team-a"]])
def test_any_other_value_is_no_tenant(value: object) -> None:
    assert not is_tenant_id(value)
