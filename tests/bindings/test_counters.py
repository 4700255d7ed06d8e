"""The choice of the counter for the tokens of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel

from lorebind_bindings import ModelPool
from lorebind_config.errors import UsageError
from lorebind_config.reading.loading import load_project
from lorebind_knowledge.embedders.local import load_tokenizer
from lorebind_prompts import ExtractiveChatModel

from .helpers import write

PROJECT = """\
name: shop
knowledge_bases: [{ id: k, sources: [{ type: markdown_glob, path: "*.md" }] }]
models:
  - { id: near, provider: extractive, tokenizer: { provider: tiktoken, encoding: cl100k_base } }
  - { id: rough, provider: extractive, tokenizer: { provider: estimate } }
  - { id: own, provider: extractive, tokenizer: { provider: huggingface, path: "t.json" } }
  - { id: plain, provider: extractive }
"""


def pool(root: Path) -> ModelPool:
    return ModelPool(load_project(write(root, {"lorebind.yaml": PROJECT}), environ={}))


@pytest.mark.parametrize(
    ("model", "name", "exact"),
    [
        ("near", "cl100k_base", True),
        ("rough", "len/4", False),
        ("own", "t.json", True),
        ("plain", "o200k_base", True),
    ],
)
def test_the_declaration_says_who_counts(
    tmp_path: Path, model: str, name: str, exact: bool
) -> None:
    """A declared `tokenizer` takes precedence over the name of the model."""
    load_tokenizer().save(str(tmp_path / "t.json"))
    _, counter = pool(tmp_path).get(model)
    assert (counter.name, counter.exact) == (name, exact)
    assert counter.count("Count me.") > 0


def test_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    """A missing tokenizer file is named when tokens are counted."""
    _, counter = pool(tmp_path).get("own")
    with pytest.raises(UsageError, match=r"t.json' cannot be read as a tokenizer"):
        counter.count("x")


def test_a_live_model_is_counted_by_its_name_or_by_itself(tmp_path: Path) -> None:
    """If the name of a model is unknown, its own count is used, if it has one."""
    models = pool(tmp_path)
    assert models.at(None, ExtractiveChatModel())[1].name == "o200k_base"
    assert models.at(None, FakeListChatModel(responses=[""]))[1].name == "len/4"
    chat = FakeListChatModel(responses=[""], custom_get_token_ids=lambda text: [1] * len(text))
    model, counter = models.at(None, chat)
    assert model is chat
    assert (counter.count("four"), counter.exact) == (4, True)
