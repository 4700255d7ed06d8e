"""`recency:` and `versions:` of `retrieval`: new documents before old ones, or instead of them."""

from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import Field

from lorebind_config.dates import AGE, AGE_FORM, age_in_seconds
from lorebind_config.declarations.base import Declaration, Matching

Age: TypeAlias = Annotated[str, Matching(AGE, "{!r} is not an age", AGE_FORM)]
"""A number of hours, days, weeks or years, as in `180d`."""
MetadataKey: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
"""A key of the metadata of passages."""

Score = TypeVar("Score", bound=Any)

UNDATED = 0.5
"""The recency of a passage without a date: as if it were one half-life old."""


class RecencyDeclaration(Declaration):
    """How much the age of a passage counts in the order of the results."""

    field: MetadataKey = Field(
        "modified",
        description="The key of the metadata with the date. Passages without a date rank as if "
        "they were as old as `half_life`.",
    )
    half_life: Age = Field(
        "180d",
        description="The age at which a passage has lost half of its recency: a number and `h`, "
        "`d`, `w` or `y`.",
    )
    weight: float = Field(
        0.2,
        ge=0,
        le=1,
        description="The share of a passage's rank that depends on its age. With 0.2, a very old "
        "passage ranks as if its score were 0.8 times as high. 0 turns it off.",
    )

    def recency_at(self, age: float) -> float:
        """Return the recency of a passage of this age in seconds: 1 if it is new, 0 if very old."""
        return float(0.5 ** max(age / age_in_seconds(self.half_life), 0.0))

    def weighted(self, score: Score, recency: Score) -> Score:
        """Return the score by which a passage of this recency is ordered, or an array of them."""
        weighted: Score = score * (1 - self.weight + self.weight * recency)
        return weighted


class VersionsDeclaration(Declaration):
    """Which documents are versions of each other: searches find only the newest of them."""

    by: list[MetadataKey] = Field(
        min_length=1,
        max_length=10,
        description="The keys of the metadata whose values are the same for all versions, such as "
        "`[product]`. Passages that lack one of them are always found.",
    )
    field: MetadataKey = Field(
        "modified",
        description="The key of the metadata that orders the versions: a date, a number or a text "
        "such as `1.10`, which is newer than `1.9`. Versions without it are the oldest.",
    )
    newest: bool = Field(
        True, description="Whether searches find the newest version only. false: all versions."
    )
