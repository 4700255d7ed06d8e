"""Templates in the `path` of file sources: the names they stand for, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from lorebind_config.declarations.sources import SourceDeclaration
from lorebind_config.errors import ConfigurationError, SourceError
from lorebind_config.reading.loading import load_project
from lorebind_config.templates import Environment
from lorebind_knowledge.sources.base import Source
from lorebind_knowledge.sources.make import make_source
from tests.bindings.helpers import write

from .folders import shut

DOCS = "{{ .env.DOCS }}"
FOLDER = "{{ .workflow.input.folder }}"


def build(root: Path, folder: Any, *, of_env: bool = True, **declared: Any) -> Source:
    """Return a source with one template that stands for a folder."""
    declared = {"type": "markdown_glob"} | declared
    declaration: SourceDeclaration = TypeAdapter(SourceDeclaration).validate_python(declared)
    environ = {"DOCS": folder} if of_env and folder is not None else {}
    workflow = None if of_env else {"input": {"folder": folder}}
    return make_source(declaration, Environment(root, environ), workflow=workflow)


def uris(source: Source) -> list[str]:
    return [item.uri for item in source.items() if not item.skipped]


def files(root: Path, *names: str) -> Path:
    return write(root, dict.fromkeys(names, "# Text\n"))


def test_a_folder_of_the_environment(tmp_path: Path) -> None:
    """The folder is found in the project folder, and its name is not shown."""
    files(tmp_path, "kb/en/a.md", "kb/en/x/kb.md", "kb/de/b.md", "kb/env.md")
    for folder in ("kb/en", "./kb/en", "kb//en/", "kb\\en"):
        source = build(tmp_path, folder, path=f"{DOCS}/**/*.md")
        assert uris(source) == [f"{DOCS}/a.md", f"{DOCS}/x/kb.md"]
        assert source.key == f"markdown_glob:{DOCS}/**/*.md"
    assert uris(build(tmp_path, "en", path=f"kb/{DOCS}/*.md")) == [f"kb/{DOCS}/a.md"]
    assert uris(build(tmp_path, "en", path=f"kb/{DOCS}v.md")) == [f"kb/{DOCS}v.md"]
    assert uris(build(tmp_path, "en", path=f"*/{DOCS}/*.md")) == [f"kb/{DOCS}/a.md"]
    both = build(tmp_path, "kb/e", path=f"{DOCS}nv.md", paths=["kb/de/*.md"])
    assert uris(both) == ["kb/de/b.md", f"{DOCS}nv.md"]


@pytest.mark.parametrize(
    ("path", "folder", "uri"),
    [
        ("**/{}/*.md", "a", "b/{}/banana.md"),
        ("*/a/{}.md", "banana", "b/a/{}.md"),
        ("*/a/{}a.md", "banan", "b/a/{}a.md"),
        ("*/a/*{}.md", "ana", "b/a/ban{}.md"),
        ("*/{}/*.md", "a/", "b/{}/banana.md"),
        ("**/{}/*.md", "b/a", "{}/banana.md"),
    ],
)
def test_a_value_behind_a_wildcard(tmp_path: Path, path: str, folder: str, uri: str) -> None:
    """The value is shown as its template, but other names that contain it are unchanged."""
    files(tmp_path, "b/a/banana.md")
    assert uris(build(tmp_path, folder, path=path.format(DOCS))) == [uri.format(DOCS)]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """A template for a whole file name is refused, because it would hide the file's format."""
    files(tmp_path, "kb/a.md")
    for path, folder in ((DOCS, "kb/a.md"), (f"kb/{DOCS}", "a.md"), (f"*/{DOCS}", "a.md")):
        with pytest.raises(SourceError, match=r"}} is a file; .*, as in .*}}\.md$"):
            uris(build(tmp_path, folder, path=path))


def test_a_folder_of_a_run(tmp_path: Path) -> None:
    """Input of a workflow is not secret, and a number can be a name."""
    files(tmp_path, "2024/a.md", "2024/drafts/b.md", "2025/c.md")
    for folder in ("2024", 2024):
        source = build(
            tmp_path,
            folder,
            of_env=False,
            type="file_glob",
            paths=[f"{FOLDER}/**"],
            exclude=[f"{FOLDER}/drafts/**"],
        )
        assert uris(source) == ["2024/a.md"]
        assert source.key == f"file_glob:{FOLDER}/** except {FOLDER}/drafts/**"


@pytest.mark.parametrize("folder", ["*", "{a,b}", "[ab]", "a?", "**", "!(a)", "a b-c~"])
def test_what_it_stands_for_is_no_pattern(tmp_path: Path, folder: str) -> None:
    """A value with wildcard characters stands for the folder of exactly that name."""
    files(tmp_path, "a/x.md", "b/x.md", "ab/x.md")
    source = build(tmp_path, folder, path=f"{DOCS}/*.md")
    with pytest.raises(SourceError, match=r"^no file in "):
        uris(source)
    files(tmp_path, f"{folder}/here.md")
    assert uris(source) == [f"{DOCS}/here.md"]


@pytest.mark.parametrize(
    ("path", "folder", "reason"),
    [
        (f"{DOCS}/*.md", "/etc", "is a path outside of the project folder"),
        (f"kb/{DOCS}/*.md", "/etc", "is a path outside of the project folder"),
        (f"{DOCS}/*.md", "..", "is a path outside of the project folder"),
        (f"kb/{DOCS}/*.md", "a/../../b", "is a path outside of the project folder"),
        (f"{DOCS}/*.md", "~/x", "is a path outside of the project folder"),
        (f"{DOCS}/*.md", "C:\\x", "is a path outside of the project folder"),
        (f"{DOCS}./*.md", ".", "leads out of the project folder"),
        (f"kb/{DOCS}{DOCS}/*.md", ".", "leads out of the project folder"),
        (f"{DOCS}/*.md", "", "is empty; expected text"),
        (f"{DOCS}/*.md", None, "variable DOCS is not set"),
        (f"{DOCS}/*.md", "a\0b", "no file in"),
    ],
)
def test_what_is_no_folder_of_the_project(
    tmp_path: Path, path: str, folder: str | None, reason: str
) -> None:
    """The source fails without showing the value, and its key does not depend on the value."""
    files(tmp_path.parent, "b/secret.md")
    source = build(tmp_path, folder, path=path, exclude=["x/*"])
    with pytest.raises(SourceError, match=reason) as caught:
        uris(source)
    assert "/etc" not in str(caught.value)
    assert source.key == build(tmp_path, "docs", path=path, exclude=["x/*"]).key


def test_what_is_no_name(tmp_path: Path) -> None:
    """A list is refused anywhere in a path."""
    for path in (FOLDER, f"{FOLDER}/*.md"):
        source = build(tmp_path, ["a"], of_env=False, path=path)
        with pytest.raises(SourceError, match="expected text, got a value of type list"):
            uris(source)


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    """A folder that is a link to a location outside of the project is not read."""
    root, outside = files(tmp_path / "project", "a.md"), files(tmp_path / "outside", "b.md")
    (root / "kb").symlink_to(outside)
    with pytest.raises(SourceError, match=r"\({{ \.env\.DOCS }}/ is skipped: links out of the"):
        list(build(root, "./kb", path=f"{DOCS}/*.md").items())


def test_transcripts(tmp_path: Path) -> None:
    """Sources of transcripts support templates too."""
    files(tmp_path, "talks/a.vtt", "talks/b.mp4")
    source = build(tmp_path, "talks", type="media_transcript", path=f"{DOCS}/*")
    assert uris(source) == [f"{DOCS}/a.vtt"]
    assert source.key == f"media_transcript:{DOCS}/*"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{{ .env.GONE }}/*", r"lorebind\.yaml:2:60: variable GONE is not set"),
        ("{{ env.DOCS }}/*", r"{{ env\.DOCS }} is not a template"),
        ("{{ .input.x }}/*", "there is no scope 'input' here"),
        ("../{{ .env.DOCS }}/*", "leaves the project folder"),
        ("/{{ .env.DOCS }}/*", "leaves the project folder"),
    ],
)
def test_what_is_found_before_anything_runs(tmp_path: Path, path: str, reason: str) -> None:
    """Templates in a path are validated like those of other fields."""
    kb = f'{{ id: docs, sources: [{{ type: file_glob, path: "{path}" }}] }}'
    write(tmp_path, {"lorebind.yaml": f"name: demo\nknowledge_bases: [{kb}]\n"})
    with pytest.raises(ConfigurationError, match=reason):
        load_project(tmp_path, environ={"DOCS": "docs"}, need_variables=True)


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed is reported, or fails the source that it belongs to."""
    files(tmp_path, "kb/en/a.md", "kb/en/x/b.md", "c.md")
    shut(tmp_path / "kb/en/x", monkeypatch)
    source = build(tmp_path, "kb/en", path=f"{DOCS}/**/*.md")
    assert [(item.uri, item.unlisted) for item in source.items()] == [
        (f"{DOCS}/a.md", ""),
        (f"{DOCS}/x/", "Permission denied"),
    ]
    shut(tmp_path / "kb", monkeypatch)
    for pattern in (f"{DOCS}/a.md", "**/*"):
        source = build(tmp_path, "kb/en", paths=["c.md", f"{DOCS}/a.md", pattern])
        with pytest.raises(SourceError, match="cannot be listed: Permission denied") as failed:
            uris(source)
        assert "kb" not in str(failed.value)
    source = build(tmp_path, "kb/en", paths=["c.md", f"{DOCS}/*.md"])
    assert [item.uri for item in source.items() if item.unlisted] == [f"{DOCS}/"]
    source = build(tmp_path, "en", paths=["c.md", f"kb/{DOCS}/*.md"])
    assert [item.uri for item in source.items() if item.unlisted] == [f"kb/{DOCS}/"]
