"""The types of keyword arguments agree with the declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import pytest

from lorebind import GenerateSettings, Project, RetrievalSettings, RetrieverSettings, UsageError
from lorebind_bindings import LorebindRetriever, Request
from lorebind_config.declarations import retrieval
from lorebind_config.declarations.retrieval import RetrievalDeclaration

from .shop import KEYS, QUESTION, shop

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
    namespace = vars(retrieval) | {"Mapping": dict, "Sequence": list, "Any": Any}
    hints = get_type_hints(RetrievalSettings, localns=namespace)
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


FACES: dict[str, Callable[..., Any]] = {
    "query": lambda project, **settings: project.query("guide", QUESTION, **settings),
    "query_explained": lambda project, **settings: project.knowledge_base("guide").query_explained(
        QUESTION, **settings
    ),
    "query_many": lambda project, **settings: project.query_many(["guide"], QUESTION, **settings),
    "retriever": lambda project, **settings: project.retriever("guide", **settings),
    "prompt": lambda project, **settings: project.prompt("guide", **settings),
    "tool": lambda project, **settings: project.tool("guide", **settings),
    "middleware": lambda project, **settings: project.middleware("guide", **settings),
    "generate": lambda project, **settings: project.generate(QUESTION, "guide", **settings),
    "stream": lambda project, **settings: project.stream(QUESTION, "guide", **settings),
}
VALUES: dict[str, tuple[Any, Any]] = {
    "strategy": ("mmr", "bm25"),
    "top_k": (2, 0),
    "min_score": (0.1, 2),
    "min_score_on": ("dense", "cosine"),
    "filters": ({"uri": "guide/keys.md"}, {"uri": {"$in": 3}}),
    "signals": ({"dense": 0.7}, {"dense": 2}),
    "fusion": ({"depth": 60}, {"dept": 60}),
    "mmr_lambda": (0.5, 2),
    "rerank": ({"class": "rerankers:Mine", "candidates": 9}, {"class": "rerankers:Mine", "x": 1}),
    "condense": ("none", "never"),
    "max_per_document": (1, 0),
    "recency": ({"half_life": "30d"}, {"half_life": "30 days"}),
    "versions": ({"by": ["product"]}, {"by": []}),
    "neighbours": (1, 9),
    "inject_as": ("passages", "{{ .x }}"),
    "render": ("json", "{{"),
    "on_weak": ("fallback", "never"),
    "fallback": ("None.", 3),
    "min_results": (2, 0),
    "stages": ([{"strategy": "lexical"}], [{"top_k": 3}]),
    "on_error": ("skip", "retry"),
    "tool_fallback": ("auto", "always"),
    "read_tools": ([], ["grep"]),
    "max_tokens": (100, "many"),
}
"""For each field of `retrieval` a valid and an invalid value."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with shop(tmp_path_factory.mktemp("shop")) as project:
        yield project


@pytest.mark.parametrize("name", RetrievalDeclaration.model_fields)
def test_every_face_accepts_every_setting(project: Project, name: str) -> None:
    """All faces accept the same fields of `retrieval`, and refuse a wrong value by one message."""
    valid, wrong = VALUES[name]
    messages = set()
    for face in FACES.values():
        face(project, **{name: valid})
        if name != "max_tokens":  # for a prompt it is the budget of all passages together
            with pytest.raises(UsageError) as refused:
                face(project, **{name: wrong})
            messages.add(str(refused.value))
    assert len(messages) <= 1


@pytest.mark.parametrize("face", FACES)
def test_no_face_accepts_anything_else(project: Project, face: str) -> None:
    """An unknown setting is refused, with the nearest one."""
    with pytest.raises(UsageError, match="unknown key 'topk'; did you mean 'top_k'"):
        FACES[face](project, topk=3)


def test_every_face_searches_with_the_settings(project: Project) -> None:
    """The settings of a query and of a retriever have the same effect."""
    for settings in ({"signals": {"dense": 0}}, {"neighbours": 1}, {"max_per_document": 1}):
        hits = project.query("guide", QUESTION, **settings)
        documents = project.retriever("guide", **settings).invoke(QUESTION)
        assert [hit.text for hit in hits] == [document.page_content for document in documents]
