"""Documents in five languages are found by other forms of their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lorebind import Project
from lorebind_config.errors import ConfigurationError

CORPUS: dict[str, dict[str, str]] = yaml.safe_load(
    Path(__file__).with_name("languages.yaml").read_text(encoding="utf-8")
)
QUESTIONS: Any = CORPUS.pop("questions")


def project(root: Path, texts: Mapping[str, str], **settings: Any) -> Project:
    """Return a project with these documents."""
    (root / "docs").mkdir(exist_ok=True)
    for name, text in texts.items():
        (root / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    declared = {
        "name": "languages",
        "embedders": [{"id": "hashing", "provider": "hashing"}],
        "knowledge_bases": [
            {
                "id": "handbook",
                "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                "retrieval": {"strategy": "lexical"},
                **settings,
            }
        ],
    }
    return Project.build(declared, root=root)


def found_first(project: Project, language: str) -> dict[str, str]:
    """Return the first document found for each question."""
    return {
        name: Path(project.query("handbook", question).matches[0].metadata["uri"]).stem
        for name, question in QUESTIONS[language].items()
    }


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Return a project with all languages in one knowledge base."""
    texts = {name: text for documents in CORPUS.values() for name, text in documents.items()}
    with project(tmp_path_factory.mktemp("languages"), texts) as built:
        built.ingest("handbook")
        yield built


@pytest.mark.parametrize("language", CORPUS)
def test_among_other_languages(everything: Project, language: str) -> None:
    """Each question finds its document first, among those of all languages."""
    assert found_first(everything, language) == {name: name for name in CORPUS[language]}


def test_counts(everything: Project) -> None:
    """The number of documents per language is known."""
    assert everything.stats("handbook").languages == dict.fromkeys(CORPUS, 5)


@pytest.mark.parametrize("language", CORPUS)
def test_a_declared_language(tmp_path: Path, language: str) -> None:
    """The results are the same if the language is declared instead of detected."""
    with project(tmp_path, CORPUS[language], language=language) as german:
        german.ingest("handbook")
        assert found_first(german, language) == {name: name for name in CORPUS[language]}


def test_another_declared_language(tmp_path: Path) -> None:
    """A changed language takes effect at the next ingest, which embeds nothing again."""
    with project(tmp_path, CORPUS["de"], language="en") as built:
        built.ingest("handbook")
        assert built.query("handbook", "Schloss").matches == []
    with project(tmp_path, CORPUS["de"], language="de") as built:
        report = built.ingest("handbook")
        assert (report.documents["updated"], report.texts_embedded) == (5, 0)
        assert found_first(built, "de") == {name: name for name in CORPUS["de"]}


def test_an_unknown_language(tmp_path: Path) -> None:
    """An unknown language is refused with the known ones."""
    with pytest.raises(ConfigurationError, match=r"unknown language 'german'.*known: .*de, "):
        project(tmp_path, CORPUS["de"], language="german")
