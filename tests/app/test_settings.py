"""The types of keyword arguments agree with the declarations."""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest

from lorebind import GenerateSettings, RetrievalSettings, RetrieverSettings, UsageError
from lorebind_bindings import LorebindRetriever, Request
from lorebind_knowledge.declarations import RetrievalDeclaration, retrieval

from .shop import KEYS, QUESTION, shop

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = {field.name for field in fields(Request)} - {"prompt"}
RETRIEVER = LorebindRetriever.model_fields.keys() - {"service", "bindings"}


@pytest.mark.parametrize(
    ("typed", "there"),
    [
        (RetrievalSettings, set()),
        (GenerateSettings, REQUEST),
        (RetrieverSettings, RETRIEVER),
    ],
)
def test_every_setting_has_a_type(typed: type, there: set[str]) -> None:
    """A field that is added to or removed from a declaration must change in the types too."""
    declared = RetrievalDeclaration.model_fields.keys() | there
    missing, too_many = declared - set(typed.__annotations__), set(typed.__annotations__) - declared
    assert not missing, f"{typed.__name__} lacks {sorted(missing)}"
    assert not too_many, f"{typed.__name__} has {sorted(too_many)}, which is not declared"


def test_every_word_has_a_type() -> None:
    """If a declaration accepts a set of words, the type accepts the same ones."""
    known = vars(retrieval) | {"Mapping": dict, "Any": Any}
    hints = get_type_hints(RetrievalSettings, localns=known)
    for name, field in RetrievalDeclaration.model_fields.items():
        # The words of `condense` are a short form of a mapping.
        declared = words(field.annotation) or {"condense": {"turns", "none"}}.get(name, set())
        assert words(hints[name]) == declared, name


def words(annotation: Any) -> set[str]:
    """Return the values of the `Literal` within an annotation."""
    parts = get_args(annotation)
    return {part for part in parts if isinstance(part, str)}.union(*map(words, parts))


def test_any_mapping_is_a_setting(tmp_path: Path) -> None:
    """Mappings other than dicts are accepted, and their content is validated as usual."""
    with shop(tmp_path) as project:
        tool = project.tool("guide", filters=MappingProxyType({"uri": "guide/keys.md"}))
        assert KEYS in tool.invoke({"query": QUESTION})
        with pytest.raises(UsageError, match="unknown key 'dept'; did you mean 'depth'"):
            project.tool("guide", fusion=MappingProxyType({"dept": 60}))
