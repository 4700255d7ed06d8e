"""The settings of the strategy `semantic`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError, Settings

THRESHOLDS = {
    "percentile": 90.0,
    "standard_deviation": 1.5,
    "interquartile": 1.5,
    "gradient": 90.0,
}
_PERCENTAGES = ("percentile", "gradient")


def _usual_threshold(data: dict[str, Any]) -> float:
    return THRESHOLDS.get(data["breakpoints"], THRESHOLDS["percentile"])


class SemanticDeclaration(Settings):
    """Settings that decide where the strategy `semantic` ends a chunk."""

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_threshold_fits`
            "if": {
                "properties": {"breakpoints": {"enum": list(_PERCENTAGES)}},
            },
            "then": {"properties": {"threshold": {"maximum": 100}}},
        }
    )
    label: ClassVar[str] = "semantic chunking"

    breakpoints: Literal["percentile", "standard_deviation", "interquartile", "gradient"] = Field(
        "percentile",
        description="How to find changes of subject, which end a chunk: by percentile, by "
        "standard deviations above the mean, by interquartile ranges above the upper quartile, or "
        "by the steepest rises.",
    )
    threshold: float = Field(
        default_factory=_usual_threshold,
        ge=0,
        le=1000,
        description="Minimum change of subject that ends a chunk. For `percentile` and `gradient`: "
        "the percentage of changes that are smaller; default 90. Otherwise: the number of "
        "deviations or ranges; default 1.5.",
    )
    structural_weight: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Weight of headings, paragraphs and list items against changes in meaning.",
    )
    window: int = Field(
        3, ge=1, le=20, description="Number of sentences to compare before and after each gap."
    )
    min_tokens: int = Field(
        32, ge=1, le=4096, description="Chunks with fewer tokens are joined with a neighbor."
    )
    max_tokens: int = Field(
        256, ge=64, le=8192, description="Maximum number of tokens (o200k_base) per chunk."
    )

    @model_validator(mode="after")
    def _threshold_fits(self) -> SemanticDeclaration:
        faults = []
        if self.breakpoints in _PERCENTAGES and self.threshold > 100:
            hint = f"expected 0 to 100, because breakpoints is {self.breakpoints!r}"
            faults.append(Fault(f"threshold is {self.threshold:g}", hint, ("threshold",)))
        if self.min_tokens >= self.max_tokens:
            hint = f"expected less than max_tokens, which is {self.max_tokens}"
            faults.append(Fault(f"min_tokens is {self.min_tokens}", hint, ("min_tokens",)))
        if faults:
            raise RefusedError(faults)
        return self
