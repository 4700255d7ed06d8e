"""`server:` the settings of `lorebind serve`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.catalogs import CatalogDeclaration


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
    """Settings of `lorebind serve`: its state, its rate limit and its host names."""

    label: ClassVar[str] = "server"

    state: CatalogDeclaration | None = Field(
        None,
        description="The database for tokens, for knowledge bases that are created over the API, "
        "and for runs. By default the SQLite file `.lorebind/server.db`. Use PostgreSQL to share "
        "the state between several servers.",
    )
    rate_limit: RateLimitDeclaration | None = Field(
        None, description="Limit for the requests of each token. By default there is no limit."
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="Host names that clients may use for the server, in addition to `localhost` "
        "and the value of `--host`. Add the public name of the server here. `*` allows any name.",
    )
