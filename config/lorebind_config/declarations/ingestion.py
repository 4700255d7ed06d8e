"""`ingestion:` which processes embed the texts of ingests."""

from typing import ClassVar

from pydantic import Field

from lorebind_config.declarations.base import Declaration

LOCAL = "local"
"""The engine that uses the process of the ingest only."""


class IngestionDeclaration(Declaration):
    """The processes that embed the texts of ingests, and the lease of each ingest."""

    label: ClassVar[str] = "ingestion"

    engine: str = Field(
        LOCAL,
        description="Where texts are embedded: `local` for the process of the ingest, or "
        "`distributed` for all processes of `lorebind worker`, on any machine. `distributed` "
        "needs catalogs in PostgreSQL, and the extra `scale`. Plugins may provide more engines.",
        json_schema_extra={"examples": [LOCAL, "distributed"]},
    )
    lease_seconds: float = Field(
        30,
        ge=3,
        le=3600,
        description="Seconds after which another ingest may take over from one that was suspended "
        "or lost its connection to the database.",
    )
