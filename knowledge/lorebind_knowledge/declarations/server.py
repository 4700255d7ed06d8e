"""`server:` how `lorebind serve` serves the project."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.catalogs import CatalogDeclaration


class RateLimitDeclaration(Declaration):
    """A number of requests at once, and more as time goes by."""

    per_second: float = Field(gt=0, allow_inf_nan=False, description="Requests a second.")
    burst: int = Field(10, ge=1, le=1_000_000, description="How many requests may come at once.")


class ServerDeclaration(Declaration):
    """What `lorebind serve` keeps, and what it lets in."""

    label: ClassVar[str] = "server"

    state: CatalogDeclaration | None = Field(
        None,
        description="Where the server keeps its tokens, the knowledge bases that are made over the "
        "API, and the runs that are asked for. By default the file `.lorebind/server.db`. Several "
        "servers share what is in PostgreSQL.",
    )
    rate_limit: RateLimitDeclaration | None = Field(
        None, description="How often each token may be used. By default there is no limit."
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="The names under which the server is called, beside `localhost` and what "
        "`--host` says. `*` is any name.",
    )
