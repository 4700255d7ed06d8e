"""`code`: LangChain's separators, with offsets."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

import lorebind_knowledge
from lorebind_knowledge.chunking.recursive import code_chunker
from lorebind_knowledge.chunking.strategies import Language as Declared

SOURCES = sorted(Path(lorebind_knowledge.__file__).parent.glob("*.py"))


def _split(text: str, language: str, size: int, overlap: int = 0) -> list[str]:
    chunks = code_chunker(language, size, overlap).split(text, 0, len(text))
    return [text[start:end] for start, end in chunks]


def test_functions_stay_whole() -> None:
    """Python is cut before classes and functions."""
    text = "import a\n\ndef f():\n    return 1\n\nclass B:\n    x = 1\n\ndef g():\n    return 2\n"
    assert _split(text, "python", 30) == [
        "import a",
        "def f():\n    return 1",
        "class B:\n    x = 1",
        "def g():\n    return 2",
    ]


@pytest.mark.parametrize("language", get_args(Declared))
def test_the_texts_are_those_of_langchain(language: str) -> None:
    """Chunks equal LangChain's for each declarable language, on our sources and separators."""
    separators = RecursiveCharacterTextSplitter.get_separators_for_language(Language(language))
    splitter = RecursiveCharacterTextSplitter.from_language(
        Language(language), chunk_size=200, chunk_overlap=40
    )
    texts = [path.read_text(encoding="utf-8") for path in SOURCES[:4]]
    texts.append("".join(f"{mark} some words in between;" for mark in separators * 5))
    for text in texts:
        assert _split(text, language, 200, 40) == splitter.split_text(text)


def test_all_languages_can_be_declared() -> None:
    """A declaration may name exactly the languages that LangChain has separators for."""
    names = set()
    for language in Language:
        try:
            RecursiveCharacterTextSplitter.get_separators_for_language(language)
        except ValueError:
            continue
        names.add(language.value)
    assert set(get_args(Declared)) == names


def test_the_fingerprint_names_the_language_and_its_separators() -> None:
    """Other separators, as in another release of LangChain, change the fingerprint."""
    python, java = code_chunker("python", 100, 0), code_chunker("java", 100, 0)
    assert python.fingerprint.startswith("code/1 python ")
    assert python.fingerprint.split()[2] != java.fingerprint.split()[2]
