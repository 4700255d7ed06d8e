"""`server:` the settings of `lorebind serve`, and an issuer whose tokens it accepts."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE, Declaration, Wants, empty_list
from lorebind_config.declarations.values import WebAddress
from lorebind_config.declarations.vector_dbs import CatalogDeclaration


class AuthorizationDeclaration(Declaration):
    """An authorization server, such as Keycloak, Auth0 or Entra ID, and how to read its tokens.

    Its access tokens are JSON Web Tokens (RFC 9068), signed with a private key.
    """

    label = "authorization"
    templated = ("issuer", "audience", "jwks")

    issuer: WebAddress = Field(
        description="The URL of the authorization server, exactly as in the claim `iss`. MCP "
        "clients get their tokens there."
    )
    audience: str | list[str] = Field(
        min_length=1,
        description="The claim `aud` of tokens for this server, or several that are accepted. MCP "
        "clients ask for the public URL of `/mcp`, such as `https://shop.example/mcp`.",
    )
    jwks: str = Field(
        min_length=1,
        description="The public keys of the issuer, as a JSON Web Key Set: its URL, or a file in "
        "the project folder. They are read again every five minutes, and when a token names an "
        "unknown key. A URL must begin with `https://`, except on this machine.",
    )
    tenant_claim: str | None = Field(
        None,
        description="The claim that names the tenant of a caller, or a list of tenants. By "
        "default, all callers are for the tenant `default`. Dots lead into nested claims.",
    )
    rights_claim: str | None = Field(
        None,
        description="The claim that contains `read`, `write` or `admin`, alone or after "
        "`lorebind:`: a list, or words as in `scope`. By default, callers may only read. Dots lead "
        "into nested claims.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if "://" not in self.jwks:
            yield "jwks", "read", OUTSIDE


class RateLimitDeclaration(Declaration):
    """A limit for requests: a steady rate, with short bursts above it."""

    per_second: float = Field(
        gt=0, allow_inf_nan=False, description="Average number of requests per second."
    )
    burst: int = Field(
        10,
        ge=1,
        le=1_000_000,
        description="Maximum number of requests at the same time after a pause.",
    )


class ServerDeclaration(Declaration):
    """Settings of `lorebind serve`: its state, its limits and its host names."""

    label: ClassVar[str] = "server"

    state: CatalogDeclaration | None = Field(
        None,
        description="The database for tokens, for knowledge bases that are created over the API, "
        "and for runs. Use PostgreSQL to share it between several servers. By default "
        "it is beside the catalog of the default vector database if that is in PostgreSQL, else in "
        "the SQLite file `.lorebind/server.db`, which stays in use if it exists.",
    )
    ingests: Literal["here", "workers"] = Field(
        "here",
        description="Where requested ingests and `ingest: on_start` run: `here` for the process of "
        "a server, or `workers` for processes of `lorebind worker`, on any machine. They need "
        "catalogs and `state` in PostgreSQL.",
    )
    answer_seconds: float = Field(
        600,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="Time limit of an answer of a chat model, in seconds. All other requests must "
        "be answered within 30 seconds.",
    )
    background_runs: int = Field(
        200,
        ge=1,
        le=100_000,
        description="Maximum number of runs of workflows that a server works on in the background "
        "at the same time. It refuses others with status 429. Runs that wait for an answer do not "
        "count.",
    )
    max_pack_mb: int = Field(
        2048,
        ge=1,
        le=1_000_000,
        description="Maximum size in MiB of a file that `unpack` accepts. All other requests may "
        "have 8 MiB. The file is stored in the folder for temporary files until it is unpacked.",
    )
    rate_limit: RateLimitDeclaration | None = Field(
        None, description="Limit for the requests of each token. By default there is no limit."
    )
    hosts: list[str] = Field(
        default_factory=empty_list,
        description="Host names that clients may use for the server, in addition to `localhost` "
        "and the value of `--host`. Add the public name of the server here. `*` allows any name.",
    )
    authorization: AuthorizationDeclaration | None = Field(
        None,
        description="An authorization server whose tokens are accepted besides those of "
        "`lorebind token create`. Without any token, the server then answers nobody.",
    )
    playground: bool = Field(
        True, description="Whether to serve the page `/playground`, which shows the knowledge."
    )
