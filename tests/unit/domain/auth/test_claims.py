"""Claims of a token with a valid signature: required claims, and the caller they identify."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.domain.auth.claims import admitted_by
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import InvalidToken
from support.callers import RULES, claims_at

NOW = 1_000_000.0


def test_valid_claims_identify_subject_tenant_and_scopes() -> None:
    admitted = admitted_by(claims_at(NOW), RULES, NOW)

    assert (admitted.caller.name, admitted.caller.tenant_id) == ("ann", "team-a")
    assert admitted.caller.api_key_id is None
    assert admitted.caller.scopes == {Scope.RUNS_READ, Scope.RUNS_WRITE}
    assert admitted.until == NOW + 600 + RULES.leeway_sec


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("runs:read", {Scope.RUNS_READ}),
        (["runs:read", "admin", 7, None, "openid"], {Scope.RUNS_READ, Scope.ADMIN}),
        ("openid profile", set()),
        ("", set()),
        (None, set()),
        ({"runs:read": True}, set()),
        (7, set()),
    ],
)
def test_scopes_are_a_list_or_words_and_unknown_ones_grant_nothing(scope: Any, expected: set[Scope]) -> None:
    assert admitted_by(claims_at(NOW, scope=scope), RULES, NOW).caller.scopes == expected


def test_claim_names_are_configurable() -> None:
    rules = replace(RULES, tenant_claim="https://example/org", scope_claim="permissions")
    claims = claims_at(NOW, tenant=None, scope="admin", permissions=["runs:read"]) | {"https://example/org": "team-b"}

    caller = admitted_by(claims, rules, NOW).caller

    assert (caller.tenant_id, caller.scopes) == ("team-b", frozenset({Scope.RUNS_READ}))


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": None},
        {"iss": "https://other.example"},
        {"iss": ["https://issuer.example"]},
        {"aud": None},
        {"aud": "other"},
        {"aud": ["other", "another"]},
        {"aud": []},
        {"aud": {"pyoco": 1}},
        {"exp": None},
        {"exp": NOW - 31},
        {"exp": str(NOW + 600)},
        {"exp": True},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"exp": 10**400},
        {"nbf": NOW + 31},
        {"nbf": "soon"},
        {"iat": NOW + 31},
        {"iat": float("nan")},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 257},
        {"sub": "line\nbreak"},
        {"tenant": None},
        {"tenant": ""},
        {"tenant": "a b"},
        {"tenant": "x" * 65},
        {"tenant": ["team-a"]},
        {"tenant": {"id": "team-a"}},
    ],
    ids=repr,
)
def test_missing_or_malformed_claims_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        admitted_by(claims_at(NOW, **changed), RULES, NOW)


@pytest.mark.parametrize("changed", [{"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}, {"aud": ["x", "pyoco"]}])
def test_the_leeway_and_a_list_of_audiences_are_accepted(changed: dict[str, Any]) -> None:
    assert admitted_by(claims_at(NOW, **changed), RULES, NOW).caller.name == "ann"
