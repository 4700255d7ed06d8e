"""`chunking:` which settings can be combined, and the chunker that is made from them."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from lorebind_config.declarations.schema import SchemaGenerator
from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.chunking.strategies import ChunkingDeclaration

SCHEMA = Draft202012Validator(
    ChunkingDeclaration.model_json_schema(schema_generator=SchemaGenerator)
)


def _declare(**written: Any) -> ChunkingDeclaration:
    return ChunkingDeclaration.model_validate(written)


@pytest.mark.parametrize(
    ("written", "size", "overlap", "unit"),
    [
        ({}, 800, 120, "characters"),
        ({"size": 100}, 100, 12, "characters"),
        ({"size": 400}, 400, 120, "characters"),
        ({"strategy": "markdown", "unit": "tokens"}, 200, 30, "tokens"),
        ({"strategy": "token"}, 200, 30, "tokens"),
        ({"strategy": "token", "unit": "tokens", "size": 64}, 64, 30, "tokens"),
        ({"strategy": "code", "language": "python", "overlap": 0}, 800, 0, "characters"),
    ],
)
def test_defaults(written: dict[str, Any], size: int, overlap: int, unit: str) -> None:
    """Defaults depend on the settings that are written."""
    declaration = _declare(**written)
    assert (declaration.size, declaration.overlap, declaration.unit) == (size, overlap, unit)
    assert SCHEMA.is_valid(written)


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [("percentile", 90), ("standard_deviation", 1.5), ("interquartile", 1.5), ("gradient", 90)],
)
def test_each_rule_has_a_threshold(rule: str, threshold: float) -> None:
    """Each rule has its own default threshold, which reaches the chunker."""
    declaration = _declare(strategy="semantic", semantic={"breakpoints": rule})
    assert declaration.semantic.threshold == threshold
    assert f"rule={rule} threshold={threshold:.1f}" in make_chunker(declaration).fingerprint


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        ({"language": "python"}, "language", "language has no effect with the strategy"),
        ({"strategy": "json", "semantic": {}}, "semantic", "semantic has no effect"),
        ({"strategy": "code"}, "", "'code' needs a language; write for example"),
        ({"strategy": "code", "language": None}, "", "'code' needs a language"),
        ({"strategy": "token", "unit": "characters"}, "unit", "choose the strategy 'fixed'"),
        (
            {"strategy": "semantic", "size": 100},
            "size",
            "semantic.min_tokens and semantic.max_tokens set the size",
        ),
        ({"strategy": "semantic", "overlap": 0}, "overlap", "overlap has no effect"),
        ({"strategy": "semantic", "unit": "tokens"}, "unit", "unit has no effect"),
        (
            {"strategy": "semantic", "semantic": {"threshold": 101}},
            "threshold",
            "expected 0 to 100, because breakpoints is 'percentile'",
        ),
        ({"strategy": "semantic", "semantic": {"window": 0}}, "", "greater than or equal to 1"),
        ({"strategy": "code", "language": "perl"}, "", "Input should be"),
        ({"strategy": "sliding"}, "", "Input should be"),
        ({"size": 63}, "", "greater than or equal to 64"),
    ],
)
def test_what_does_not_belong_is_refused(written: dict[str, Any], path: str, message: str) -> None:
    """Loading and the schema refuse a setting without effect; nothing is ignored."""
    with pytest.raises(ValidationError, match=message.replace("(", r"\(")) as refused:
        _declare(**written)
    assert not SCHEMA.is_valid(written)
    if path:
        faults = refused.value.errors()[0]["ctx"]["error"].faults
        assert [fault.path for fault in faults] == [(path,)]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"size": 100, "overlap": 100}, "expected 0 to 99"),
        (
            {"strategy": "semantic", "semantic": {"min_tokens": 300}},
            "expected less than max_tokens, which is 256",
        ),
    ],
)
def test_one_number_against_another(written: dict[str, Any], message: str) -> None:
    """Loading checks limits that a schema cannot express."""
    with pytest.raises(ValidationError, match=message):
        _declare(**written)
    assert SCHEMA.is_valid(written)


def test_everything_wrong_is_told_at_once() -> None:
    """Each setting that does not belong has a message of its own."""
    with pytest.raises(ValidationError) as refused:
        _declare(strategy="semantic", size=100, overlap=10, language="go")
    assert str(refused.value).count("has no effect") == 3
