"""The cost of access control: gateways with and without it, in alternating bursts."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.connection import Connection
from bench.load import Request, Tool, ask_for
from bench.measures import submit_body
from bench.systems import Ours, Stack
from pyoco_server.bootstrap import open_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import USUAL_SCOPES, scope_names

CONNECTIONS = 64
# Short alternating bursts: other load of the machine affects both sides alike.
BURST_SEC = 1.0
ISSUER, AUDIENCE, TENANT = "https://bench.example", "bench", "bench"


class Guarded(Ours):
    """This product with both kinds of credentials."""

    def __init__(self) -> None:
        super().__init__()
        self._key = generate_private_key(SECP256R1())

    @property
    def _pem(self) -> Path:
        return self.folder / "key.pem"

    def _settings(self) -> dict[str, str]:
        self._pem.write_bytes(self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return {
            "PYOCO_HTTP_AUTH_MODE": "api_key,jwt",
            "PYOCO_JWT_ISSUER": ISSUER,
            "PYOCO_JWT_AUDIENCE": AUDIENCE,
            "PYOCO_JWT_PEM_FILE": str(self._pem),
        }

    def headers_with_key(self) -> dict[str, str]:
        return {"X-API-Key": asyncio.run(self._hand_out())}

    def headers_with_token(self) -> dict[str, str]:
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "bench", "tenant": TENANT, "exp": int(time.time()) + 3600}
        token = jwt.encode({**claims, "scope": " ".join(scope_names(USUAL_SCOPES))}, self._key, algorithm="ES256")
        return {"Authorization": f"Bearer {token}"}

    async def _hand_out(self) -> str:
        url, token = self.nats()
        async with open_api_keys(NatsBackendConfig(nats_url=url, nats_token=token or "")) as keys:
            return (await keys.hand_out(TENANT, USUAL_SCOPES)).api_key


def cost_of_access(plain: Stack, guarded: Guarded, client: Tool, *, seconds: float) -> dict[str, float]:
    """Requests per second with access control as a share of those without, by way and act."""
    shares = {}
    for way, headers in (("key", guarded.headers_with_key()), ("token", guarded.headers_with_token())):
        for act in ("submit", "read"):
            without, with_it = _request(plain, act, {}), _request(guarded, act, headers)
            answered = {"without": 0.0, "with": 0.0}
            for turn in range(max(2, round(2 * seconds))):
                sides = [("without", plain, without), ("with", guarded, with_it)]
                for side, stack, request in sides if turn % 2 else reversed(sides):
                    load = ask_for(client, stack.port, request, connections=CONNECTIONS, seconds=BURST_SEC)
                    answered[side] += load.require_clean().per_sec
            shares[f"{way}.{act}"] = answered["with"] / answered["without"]
    return shares


def _request(stack: Stack, act: str, headers: Mapping[str, str]) -> Request:
    submit = Request(path="/runs", body=submit_body("one"), headers=headers)
    if act == "submit":
        return submit
    with Connection(stack.port) as connection:
        made = connection.request("POST", submit.path, submit.body, headers).require_ok("a submit")
    return Request(method="GET", path=f"/runs/{made.json()['run_id']}", headers=headers)
