"""The merge of bindings, compared with a simple reference implementation."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_bindings import BindingScope
from lorebind_config.declarations.retrieval import (
    NOTHING_FOUND,
    FusionDeclaration,
    SignalsDeclaration,
)
from lorebind_config.reading.loading import load_project
from tests.bindings.helpers import resolve
from tests.density import examples

from .helpers import write

DEFAULTS: dict[str, Any] = {
    "strategy": "hybrid",
    "top_k": 5,
    "min_score": None,
    "min_score_on": None,
    "max_tokens": None,
    "filters": {},
    "signals": SignalsDeclaration(),
    "fusion": FusionDeclaration(),
    "mmr_lambda": 0.7,
    "rerank": None,
    "recency": None,
    "versions": None,
    "neighbours": 0,
    "inject_as": None,
    "on_weak": "give",
    "fallback": NOTHING_FOUND,
    "min_results": 1,
    "stages": [],
    "render": "bullets",
    "on_error": "fail",
    "tool_fallback": "never",
    "read_tools": [],
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "strategy": st.sampled_from(["similarity", "mmr"]),
    "top_k": st.integers(3, 50),
    "min_score": st.sampled_from([0.0, 0.25, 1.0]),
    "max_tokens": st.integers(1, 9000),
    "filters": st.sampled_from([{}, {"team": "x"}, {"lang": ["de", "en"], "old": False}]),
    "mmr_lambda": st.sampled_from([0.25, 1.0]),
    "neighbours": st.integers(0, 5),
    "inject_as": st.sampled_from(["Handbook", "Rules"]),
    "fallback": st.sampled_from(["Ask a human.", "Say so."]),
    "min_results": st.integers(1, 3),
}
KB_IDS = ["a", "b", "c"]
SCOPES = ["project", "workflow/w", "task/t", "agent/g"]


def subset(nullable: bool) -> st.SearchStrategy[dict[str, Any]]:
    values = {name: value | st.none() if nullable else value for name, value in VALUES.items()}
    return st.fixed_dictionaries({}, optional=values)


@st.composite
def bindings(draw: st.DrawFn) -> list[dict[str, Any]] | None:
    """Return the bindings of one scope, some flat; None means that it has no `knowledge`."""
    if draw(st.integers(0, 3)) == 0:
        return None
    bindings = []
    for kb_id in draw(st.lists(st.sampled_from(KB_IDS), unique=True)):
        overrides = draw(subset(nullable=True))
        nested = {name for name in overrides if draw(st.booleans())}
        binding = {"id": kb_id, **{k: v for k, v in overrides.items() if k not in nested}}
        if nested:
            binding["retrieval"] = {name: overrides[name] for name in nested}
        bindings.append(binding)
    return bindings


def flattened(binding: dict[str, Any]) -> dict[str, Any]:
    return {**binding, **binding.get("retrieval", {})}


@settings(max_examples=examples(60), deadline=None)
@given(
    base=st.fixed_dictionaries({kb_id: subset(nullable=False) for kb_id in KB_IDS}),
    scopes=st.tuples(bindings(), bindings(), bindings(), bindings()),
)
def test_the_merge_is_the_last_scope_that_wrote_a_field(
    base: dict[str, dict[str, Any]], scopes: tuple[list[dict[str, Any]] | None, ...]
) -> None:
    """The last scope that set a field determines it; null is the default; an empty list clears."""
    knowledge = {
        scope: {} if some is None else {"knowledge": some}
        for scope, some in zip(SCOPES, scopes, strict=True)
    }
    sources = [{"type": "markdown_glob", "path": "*.md"}]
    task = {"id": "t", "agent": "g", "prompt": "x", **knowledge["task/t"]}
    files = {
        "lorebind.yaml": {
            "name": "p",
            "knowledge_bases": [
                {"id": kb_id, "sources": sources, "retrieval": base[kb_id]} for kb_id in KB_IDS
            ],
            **knowledge["project"],
            "autoload": {"include": ["*.yaml"]},
        },
        "w.yaml": {"id": "w", "tasks": [task], **knowledge["workflow/w"]},
        "g.yaml": {"resource": "agent", "id": "g", **knowledge["agent/g"]},
    }
    homes = dict(zip(SCOPES, ["lorebind.yaml", "w.yaml", "w.yaml", "g.yaml"], strict=True))
    homes["knowledge_base"] = "lorebind.yaml"
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, {name: yaml.safe_dump(data) for name, data in files.items()})
        loaded = load_project(root, environ={})
        resolved = resolve(loaded, workflow="w", task="t")
        cleared = BindingScope(loaded, workflow="w", task="t").unbound_by()
        lines = {name: (root / name).read_text().splitlines() for name in files}

    clearing = [at for at, some in enumerate(scopes) if some == []]
    if cleared is None:
        assert not clearing
    else:
        assert cleared.scope == SCOPES[clearing[-1]]
        assert lines[cleared.file][cleared.line - 1].strip(" -") == "knowledge: []"
    in_effect = dict(list(zip(SCOPES, scopes, strict=True))[max(clearing, default=0) :])
    assert [bound.id for bound in resolved] == list(
        dict.fromkeys(binding["id"] for some in in_effect.values() for binding in some or [])
    )
    for bound in resolved:
        layers = [("default", DEFAULTS), ("knowledge_base", base[bound.id])]
        layers += [
            (scope, flattened(binding))
            for scope, some in in_effect.items()
            for binding in some or []
            if binding["id"] == bound.id
        ]
        for field, default in DEFAULTS.items():
            scope, values = [layer for layer in layers if field in layer[1]][-1]
            expected = default if values[field] is None else values[field]
            assert getattr(bound.settings, field) == expected
            place = bound.provenance[field]
            assert place.scope == scope
            if scope != "default":
                assert place.file == homes[scope]
                assert lines[place.file][place.line - 1].strip(" -").startswith(f"{field}:")
