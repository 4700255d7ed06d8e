"""Several knowledge bases in one ranking: at a place, with other embedders, over every face."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebind import Project, UsageError
from lorebind.plain_data import as_data

from .helpers import Cli
from .shop import KEYS, OLD, PROJECT, QUESTION, RULES, shop

SONG = "A song about keys that open every door."
SONGS = """\
  - id: songs
    embedder: short
    retrieval: { top_k: 1 }
    sources: [{ type: markdown_glob, path: "songs/*.md" }]
"""
POET = "  - { id: poet, instructions: Rhyme., knowledge: [] }\n"
SHORT = "{ id: short, provider: hashing, config: { dimension: 64 } }"
WITH_SONGS = (
    PROJECT.replace("provider: hashing }", f"provider: hashing }}, {SHORT}")
    .replace("knowledge: [{ id: guide }]", f"{SONGS}knowledge: [{{ id: guide }}]")
    .replace("workflows:\n", f"{POET}workflows:\n")
)
ALL = ["guide", "rules", "songs"]
FILES_OF_SONGS = {"lorebind.yaml": WITH_SONGS, "songs/a.md": f"{SONG}\n", "songs/b.md": "Dust.\n"}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with shop(tmp_path, files=FILES_OF_SONGS) as opened:
        opened.ingest("songs")
        yield opened


def test_other_embedders_are_ordered_by_rank(project: Project) -> None:
    """Each scale keeps its order, their passages alternate, and the result says so."""
    result = project.query_many(ALL, QUESTION, top_k=4)
    assert result.by_ranks
    assert result.searched == ALL
    (notice,) = result.notices
    assert notice.startswith("the scores of 'guide', 'rules', 'songs' cannot be compared")
    joined = project.query_many(ALL[:2], QUESTION, top_k=4)
    assert not joined.by_ranks
    songs = project.query("songs", QUESTION, top_k=4)
    assert [match.text for match in result] == [
        joined[0].text,
        songs[0].text,
        joined[1].text,
        songs[1].text,
    ]
    assert result[1] == songs[0]
    assert len(project.query_many(["songs", "guide"], QUESTION)) == 3  # 1 of songs, 2 of guide


@pytest.mark.parametrize(
    ("place", "texts"),
    [
        ({}, {KEYS, OLD}),
        ({"workflow": "reply", "task": "say"}, {KEYS, OLD}),
        ({"agent": "clerk"}, {KEYS, OLD, RULES}),
    ],
)
def test_an_empty_list_is_what_is_bound(
    project: Project, place: dict[str, str], texts: set[str]
) -> None:
    """Without names, the bindings of the place are searched, each with its own settings."""
    result, bindings, _ = project.at(**place).explain_query(QUESTION)
    assert {match.text for match in result} == texts
    explained = project.explain(**place)
    assert [binding.settings for binding in bindings] == [each.settings for each in explained]


def test_recency_of_one(tmp_path: Path) -> None:
    """Passages are not compared with those that recency orders."""
    with shop(tmp_path, guide=", recency: { half_life: 30d }") as project:
        result = project.query_many([], QUESTION, agent="clerk")
        assert result.by_ranks
        assert [match.metadata["kb_id"] for match in result][:2] == ["guide", "rules"]
        assert not project.query_many(["guide", "rules"], QUESTION).by_ranks


def test_nothing_is_bound(project: Project) -> None:
    """Where `knowledge: []` says so, nothing is searched, and the reason names the line."""
    result = project.query_many([], QUESTION, agent="poet")
    assert (result.matches, result.searched, result.verdict) == ([], [], "miss")
    assert "agent/poet binds nothing" in result.shortfall
    with pytest.raises(UsageError, match="question is empty"):
        project.query_many([], " ", agent="poet")


def test_without_bindings_all_are_searched(tmp_path: Path) -> None:
    """A knowledge base without an index is skipped; if all lack one, it is an error."""
    yaml = WITH_SONGS.replace("\nknowledge: [{ id: guide }]", "")
    with shop(tmp_path, files=FILES_OF_SONGS | {"lorebind.yaml": yaml}) as project:
        result = project.query_many([], QUESTION)
        assert (result.searched, result.skipped) == (ALL[:2], ["songs"])
        assert not result.by_ranks
        project.ingest("songs")
        result = project.query_many([], QUESTION)
        assert result.searched == ALL
        assert [match.metadata["kb_id"] for match in result].count("songs") == 1


def test_on_the_command_line(empty_cli: Cli) -> None:
    """The same passages in the same order, with the notice and the settings of each."""
    shop(empty_cli.root, files=FILES_OF_SONGS).close()
    assert empty_cli("ingest", "songs").code == 0
    with Project.load(empty_cli.root) as project:
        expected = as_data(project.query_many(ALL, QUESTION))
        bound = as_data(project.query_many([], QUESTION, agent="clerk"))
    done = empty_cli("query", *ALL, QUESTION, "-o", "json")
    assert json.loads(done.out)["matches"] == expected["matches"]
    assert done.err.startswith("note: the scores of 'guide', 'rules', 'songs' cannot be compared")
    table = empty_cli("query", *ALL, "-q", QUESTION).out
    assert "songs  songs/a.md" in table
    done = empty_cli("query", QUESTION, "--agent", "clerk", "--explain", "-o", "json")
    data = json.loads(done.out)
    assert data["result"]["matches"] == bound["matches"]
    assert [binding["id"] for binding in data["bindings"]] == ["guide", "rules"]
    by_option = empty_cli("query", "-q", QUESTION, "--agent", "clerk", "-o", "json")
    assert json.loads(by_option.out)["matches"] == bound["matches"]
    nothing = empty_cli("query", QUESTION, "--agent", "poet")
    assert (nothing.code, "binds nothing" in nothing.out) == (1, True)
    forgotten = empty_cli("query", "guide")
    assert (forgotten.code, forgotten.err) == (
        2,
        'lorebind: write one question: lorebind query guide "…"\n',
    )


def test_a_project_without_knowledge_bases(empty_cli: Cli) -> None:
    """The error says what to declare."""
    (empty_cli.root / "lorebind.yaml").write_text("name: nothing")
    done = empty_cli("query", "-q", QUESTION)
    assert (done.code, done.err) == (
        2,
        "lorebind: the project 'nothing' has no knowledge base yet; declare one under "
        "knowledge_bases\n",
    )
