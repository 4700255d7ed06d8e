"""The parameter `filters` of a URL: a metadata filter as JSON."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.exceptions import RequestValidationError
from pydantic import Json, TypeAdapter, ValidationError

from lorebind_config.declarations.retrieval import Filters

_JSON: TypeAdapter[dict[str, Any]] = TypeAdapter(Json[Filters])
_IN_URL = ("query", "filters")


def _filters(
    filters: Annotated[
        str | None,
        Query(
            max_length=20_000,
            description="Conditions on the metadata of passages, as a JSON object.",
            examples=['{"team": "sales"}'],
        ),
    ] = None,
) -> dict[str, Any] | None:
    if filters is None:
        return None
    try:
        return _JSON.validate_python(filters)
    except ValidationError as error:
        # With the type of broken JSON, the error would be reported as one of the body.
        raise RequestValidationError(
            [
                {**problem, "type": "value_error", "loc": (*_IN_URL, *problem["loc"])}
                for problem in error.errors()
            ]
        ) from None


FiltersInUrl = Annotated[dict[str, Any] | None, Depends(_filters)]
"""The filter of a request; None if it has none."""
