"""Tokens of an authorization server: JWTs signed by real keys, from a loopback server."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mcp import MCPError

from lorebind import ConfigurationError, Project
from lorebind.server.middleware import jwts as jwts_module
from lorebind.server.server import Server
from lorebind_config.errors import UsageError
from lorebind_config.trust import demands_of
from tests.knowledge.web_server import Answer, WebServer, endless

from .conftest import PROJECT, write_project
from .in_process import Served, problem, served
from .test_mcp import ACCEPTS, ASKS, MCP, data, over_http

ISSUER = "http://127.0.0.1:9/login"  # where nothing answers
AUDIENCE = "https://shop.example/mcp"
KEYS = "/keys"
WELL_KNOWN = "http://localhost/.well-known/oauth-protected-resource"
RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP384R1())
ED = ed25519.Ed25519PrivateKey.generate()
KINDS: dict[str, Any] = {"RS256": RSA, "PS512": RSA, "ES384": EC, "EdDSA": ED}


def public(key: Any, name: str | None, **more: Any) -> dict[str, Any]:
    """Return the public part of a key, as an issuer publishes it."""
    kind = {RSA: "RS256", OTHER: "RS256", EC: "ES384", ED: "EdDSA"}[key]
    written: Any = jwt.get_algorithm_by_name(kind).to_jwk(key.public_key(), as_dict=True)
    return {**written, **({"kid": name} if name else {}), **more}


ALL = [public(RSA, "rsa", use="sig"), public(EC, "ec"), public(ED, "ed")]
NAMES = {"RS256": "rsa", "PS512": "rsa", "ES384": "ec", "EdDSA": "ed"}


def signed(algorithm: str = "RS256", key: Any = None, kid: str | None = "", **claims: Any) -> str:
    """Return a token that is valid for five minutes, with other claims; None removes one."""
    now = int(time.time())
    body = {"iss": ISSUER, "aud": AUDIENCE, "exp": now + 300, "sub": "ann@shop.example", **claims}
    name = NAMES.get(algorithm, "rsa") if kid == "" else kid
    return jwt.encode(
        {claim: value for claim, value in body.items() if value is not None},
        KINDS.get(algorithm) if key is None else key,
        algorithm,
        {"kid": name} if name else None,
    )


@pytest.fixture
def issuer(socket_enabled: None) -> Iterator[WebServer]:
    started = WebServer()
    publish(started, ALL)
    yield started
    started.close()


def publish(issuer: WebServer, keys: list[dict[str, Any]]) -> None:
    issuer.routes[KEYS] = Answer(json.dumps({"keys": keys}).encode())


def declared(web: WebServer, **more: Any) -> dict[str, Any]:
    settings = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": web.url(KEYS), **more}
    return {"server": {"authorization": settings}}


@asynccontextmanager
async def authorized(
    folder: Path, web: WebServer, more: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Served]:
    async with served(folder, {**declared(web, **settings), **(more or {})}) as server:
        yield server


async def status(server: Served, token: str | None, **headers: str) -> tuple[int, str]:
    async with server.client(token, **headers) as api:
        answer = await api.get("/knowledge-bases")
        return (200, "") if answer.status_code == 200 else problem(answer)


async def test_every_face_takes_the_tokens(tmp_path: Path, issuer: WebServer) -> None:
    """REST, `/v1` and `/mcp`, whatever the algorithm; our own tokens are valid besides."""
    async with authorized(tmp_path, issuer) as server:
        for algorithm in KINDS:
            for kid in ("", None):
                assert await status(server, signed(algorithm, kid=kid)) == (200, "")
        assert await status(server, signed(aud=["x", AUDIENCE])) == (200, "")
        assert await status(server, server.token("ann", "read")) == (200, "")
        async with server.client(signed()) as api:
            assert (await api.get("http://localhost/v1/models")).status_code == 200
            # It may only read, as no claim grants more.
            assert problem(await api.post("/knowledge-bases/handbook/ingest")) == (403, "forbidden")
        async with over_http(server, signed()) as client:
            assert data(await client.call_tool("list_knowledge_bases"))["knowledge_bases"]
    assert len(issuer.requests) == 1  # the keys are kept


def in_base64(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def forged() -> dict[str, str]:
    """Return tokens that are not valid, each with the reason."""
    now = int(time.time())
    head, body, signature = signed().split(".")
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def headed(**header: Any) -> str:
        return in_base64(json.dumps({"typ": "JWT", "kid": "rsa", **header}).encode())

    hashed = f"{headed(alg='HS256')}.{body}"
    unsigned = jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "exp": now + 300}, None, "none")
    return {
        signed(exp=now - 120): "it has expired",
        signed(nbf=now + 120): "it is not valid yet",
        signed(iat=now + 120): "it is not valid yet",
        signed(exp=None): '"exp"',
        signed(aud=None): '"aud"',
        signed(iss=None): '"iss"',
        signed(aud="https://other.example"): "another audience",
        signed(iss="https://evil.example"): "another issuer",
        signed(key=OTHER): "signature",
        signed("RS256", OTHER, kid=None): "signature",
        signed(kid="unknown"): "no key",
        unsigned: "no key",
        # The public key, used as the secret of an HMAC, which PyJWT does not do for us.
        f"{hashed}.{in_base64(hmac.digest(pem, hashed.encode(), 'sha256'))}": "no key",
        f"{headed(alg='none')}.{body}.": "no key",
        f"{headed(alg='ES384')}.{body}.{signature}": "no key",
        f"{headed(alg='RS256', crit=['x'], x=1)}.{body}.{signature}": "form",
        f"{headed(alg='RS256', kid=[1])}.{body}.{signature}": "form",
        f"{head}.{body}.{signature[:-4]}AAAA": "signature",
        f"{head}.{body[:-4]}AAAA.{signature}": "signature",
        "a.b.c": "form",
        f"{in_base64(b'[' * 9000)}.b.c": "form",
        signed(exp="soon"): "form",
        signed(sub=7): "form",
    }


async def test_other_tokens_are_refused(tmp_path: Path, issuer: WebServer) -> None:
    """Each with the reason, and with the place where a program gets a valid one."""
    async with authorized(tmp_path, issuer) as server, server.client() as api:
        for token, reason in forged().items():
            sent = {"Authorization": f"Bearer {token}"}
            refused = await api.get("/knowledge-bases", headers=sent)
            assert problem(refused) == (401, "unauthenticated"), reason
            assert reason in refused.json()["detail"]
            assert refused.json()["detail"].endswith(f"get a new one from {ISSUER}")
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        # Clocks may differ by a minute.
        assert await status(server, signed(exp=int(time.time()) - 30)) == (200, "")
    assert len(issuer.requests) <= 2


async def test_where_tokens_are_had(tmp_path: Path, issuer: WebServer) -> None:
    """A 401 names the metadata of RFC 9728, which needs no token, but the right host."""
    async with authorized(tmp_path, issuer) as server, server.client() as api:
        for path, suffix in (("/mcp", "/mcp"), ("/api/v0/knowledge-bases", ""), ("/v1/models", "")):
            send = api.post if path == "/mcp" else api.get
            refused = await send(f"http://localhost{path}", headers=ACCEPTS)
            assert problem(refused) == (401, "unauthenticated")
            url = f"https://shop.example/.well-known/oauth-protected-resource{suffix}"
            challenge = f'Bearer realm="lorebind", resource_metadata="{url}"'
            assert refused.headers["www-authenticate"] == challenge
            assert ISSUER in refused.text
            answer = await api.get(f"{WELL_KNOWN}{suffix}")
            assert answer.json() == {
                "resource": f"https://shop.example{suffix}",
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
            }
        assert problem(await api.post(WELL_KNOWN))[0] == 405
        elsewhere = await api.get(WELL_KNOWN, headers={"Host": "evil.example"})
        assert problem(elsewhere) == (403, "host_refused")
    names = ["shop", "api://x"]
    async with authorized(tmp_path / "b", issuer, audience=names) as server, server.client() as api:
        assert (await api.get(WELL_KNOWN)).json()["resource"] == "http://localhost"
    async with served(tmp_path / "c") as server, server.client() as api:
        assert problem(await api.get(WELL_KNOWN))[0] == 404
        server.token("ann", "read")
        refused = await api.post(MCP, json=ASKS, headers={**ACCEPTS, "Authorization": "Bearer x"})
        assert (
            refused.headers["www-authenticate"] == 'Bearer realm="lorebind", error="invalid_token"'
        )


async def test_claims_name_tenants_and_rights(tmp_path: Path, issuer: WebServer) -> None:
    """Another tenant is refused; a token without a tenant or rights is, too."""
    claims = {"tenant_claim": "https://shop.example/tenant", "rights_claim": "realm.roles"}
    async with authorized(tmp_path, issuer, {"tenancy": "required"}, **claims) as server:

        def token(tenant: Any, rights: Any) -> str:
            return signed(**{"https://shop.example/tenant": tenant, "realm": {"roles": rights}})

        ann = token("ann", ["x", "lorebind:write"])
        async with server.client(ann) as api:
            note = {"id": "secret", "text": "Zebrawood is brown."}
            added = await api.post("/knowledge-bases/handbook/documents", json=note)
            assert added.status_code == 201
        asked = {"pattern": "Zebrawood"}
        async with over_http(server, ann) as client:
            (entry,) = data(await client.call_tool("find", asked))["results"]
        async with over_http(server, token(["bob"], "openid read")) as client:
            assert (await client.call_tool("find", asked)).is_error
            with pytest.raises(MCPError):
                await client.read_resource(entry["id"])
        both = token(["ann", "bob"], ["admin"])
        assert await status(server, both) == (400, "tenant_required")
        assert await status(server, both, **{"X-Tenant-ID": "bob"}) == (200, "")
        assert await status(server, ann, **{"X-Tenant-ID": "bob"}) == (403, "tenant_forbidden")
        for tenant in (None, "", [], [1], "a\nb", {"a": 1}):
            assert await status(server, token(tenant, ["read"])) == (403, "tenant_forbidden")
        for rights in (None, "", [], "writes", {"read": 1}, 3):
            assert await status(server, token("ann", rights)) == (403, "forbidden")
        assert await status(server, signed(realm=3)) == (403, "forbidden")


async def test_keys_change_and_vanish(
    tmp_path: Path,
    issuer: WebServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A new key is read when a token names it; during an outage, the known keys remain valid."""
    keys = issuer.routes[KEYS]
    issuer.routes[KEYS] = Answer(status=503)
    async with authorized(tmp_path, issuer) as server:
        for _ in range(2):  # the second is refused without another read
            assert await status(server, signed()) == (503, "store_unavailable")
        assert len(issuer.requests) == 1
        assert await status(server, server.token("ann", "read")) == (200, "")
        issuer.routes[KEYS] = keys
        monkeypatch.setattr(jwts_module, "_COOL_SECONDS", 0)
        assert await status(server, signed()) == (200, "")
        new = signed(key=OTHER, kid="new")
        assert await status(server, new) == (401, "unauthenticated")
        publish(issuer, [public(OTHER, "new")])
        seen = len(issuer.requests)
        monkeypatch.setattr(jwts_module, "_COOL_SECONDS", 60)
        assert await status(server, new) == (401, "unauthenticated")
        assert len(issuer.requests) == seen  # however many tokens name unknown keys
        monkeypatch.setattr(jwts_module, "_COOL_SECONDS", 0)
        both = await asyncio.gather(*(status(server, new) for _ in range(20)))
        assert set(both) == {(200, "")}
        assert await status(server, signed()) == (401, "unauthenticated")
        monkeypatch.setattr(jwts_module, "_FRESH_SECONDS", 0)
        for answer in (endless, Answer(b"{"), Answer(b'{"keys": []}'), Answer(b"[" * 99999)):
            issuer.routes[KEYS] = answer
            assert await status(server, new) == (200, "")
        symmetric = {"kty": "oct", "k": "AAAA", "kid": "new"}
        publish(issuer, [symmetric, public(RSA, "rsa", use="enc"), {"kty": "EC"}, {"kty": "x"}])
        assert await status(server, new) == (200, "")
        monkeypatch.setattr(jwts_module, "_STALE_SECONDS", 0)
        assert await status(server, new) == (503, "store_unavailable")
    assert "cannot read the keys" not in caplog.text
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 2


async def test_keys_in_a_file(tmp_path: Path, issuer: WebServer) -> None:
    """The declaration may use variables; a file outside of the project needs trust."""
    (tmp_path / "keys.json").write_text(json.dumps({"keys": ALL}))
    (tmp_path / ".env").write_text(f"ISSUER={ISSUER}\nKEYS=keys.json\n")
    settings = {"issuer": "{{ .env.ISSUER }}", "jwks": "{{ .env.KEYS }}"}
    async with authorized(tmp_path, issuer, **settings) as server:
        assert await status(server, signed()) == (200, "")
        assert await status(server, signed(key=OTHER)) == (401, "unauthenticated")
    assert not issuer.requests
    folder = write_project(tmp_path / "sub", {**PROJECT, **declared(issuer, jwks="../keys.json")})
    demands = demands_of(Project.load(folder).config).all
    assert any("a file outside" in demand.what for demand in demands)


def test_mistakes_in_the_declaration(tmp_path: Path, issuer: WebServer) -> None:
    for jwks, message in (
        ("http://login.example/keys", "https://"),
        ("https://[login/keys", "not valid"),
        ("https://login.example:99999/keys", "not valid"),
    ):
        wrong = write_project(tmp_path, {**PROJECT, **declared(issuer, jwks=jwks)})
        with (
            Project.load(wrong) as project,
            pytest.raises(UsageError, match=rf"lorebind.yaml:\d+:\d+: .*{message}"),
        ):
            Server(project)
    tenants = {**PROJECT, **declared(issuer), "tenancy": "required"}
    with pytest.raises(ConfigurationError, match="no tenant_claim"):
        Project.load(write_project(tmp_path, tenants))


async def test_the_log_has_no_subject(
    tmp_path: Path, issuer: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The subject may be an address, so the log and the rate limit have its hash."""
    caplog.set_level(logging.INFO)
    limits = {"rate_limit": {"per_second": 0.01, "burst": 1}}
    more = {"server": {**declared(issuer)["server"], **limits}}
    async with authorized(tmp_path, issuer, more) as server:
        assert await status(server, signed()) == (200, "")
        assert await status(server, signed(exp=int(time.time()) + 99)) == (429, "rate_limited")
        assert await status(server, signed(sub="bob")) == (200, "")
    assert '"caller": "jwt_' in caplog.text
    assert "ann@" not in caplog.text


async def test_what_fails_at_the_start_is_logged(
    tmp_path: Path,
    issuer: WebServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It prevents nothing else: the keys are read, and an odd audience is no public address."""

    def fail(*_: object) -> None:
        raise RuntimeError("MCP is broken")

    monkeypatch.setattr("lorebind.mcp.server.make_server", fail)
    audience = "https://[shop"
    async with authorized(tmp_path, issuer, audience=audience) as server:
        assert server.server.preparing is not None
        await server.server.preparing
        assert len(issuer.requests) == 1
        assert await status(server, signed(aud=audience)) == (200, "")
        assert await status(server, None) == (401, "unauthenticated")
    assert "RuntimeError: MCP is broken" in caplog.text


async def test_the_start_reads_the_keys_and_checks_the_issuer(
    tmp_path: Path, issuer: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The first token waits for no key. A mistake is logged once, and the server goes on."""
    name = issuer.url("/realms/shop")
    place = "/realms/shop/.well-known/openid-configuration"
    for number, (written, named, logged) in enumerate(
        (
            (name, name, ""),
            (f"{name}/", name, f"its metadata name the issuer {name!r}"),
            (name, None, "its metadata name no issuer"),
            ("http://127.0.0.1:99999/shop", name, "it is not a valid URL"),
        )
    ):
        issuer.requests.clear()
        issuer.routes[place] = Answer(json.dumps({"issuer": named} if named else {}).encode())
        caplog.clear()
        async with authorized(tmp_path / str(number), issuer, issuer=written) as server:
            assert server.server.preparing is not None
            await server.server.preparing
            assert server.server.mcp._manager is not None  # no request waits for its import
            before = len(issuer.requests)
            assert await status(server, signed(iss=written)) == (200, "")
            assert [request.target for request in issuer.requests].count(KEYS) == 1
            assert len(issuer.requests) == before
        warned = [record.getMessage() for record in caplog.records if "issuer" in record.msg]
        assert warned == ([f"check the issuer {written}: {logged}"] if logged else [])
