"""Files below a folder: which are opened and which are refused, despite concurrent changes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from lorebind_config import project_files
from lorebind_config.project_files import OutsideError, open_inside


@pytest.fixture(params=["at once", "part by part", "as on Windows"])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    if request.param == "as on Windows":
        monkeypatch.setattr(os, "supports_dir_fd", set())
    if request.param == "part by part":
        monkeypatch.setattr(project_files, "_OPENED", "/nowhere/{}")
    (tmp_path / "project/docs/deep").mkdir(parents=True)
    (tmp_path / "outside/deep").mkdir(parents=True)
    (tmp_path / "project/docs/deep/a.md").write_text("inside")
    (tmp_path / "outside/deep/a.md").write_text("outside")
    return tmp_path / "project"


def read(folder: Path, path: str) -> str:
    with open_inside(folder.resolve(), path) as file:
        return file.read().decode()


@pytest.mark.parametrize("path", ["docs/deep/a.md", "./docs//deep/../deep/a.md"])
def test_what_is_inside(project: Path, path: str) -> None:
    """A file is read however its path is spelled, and through a link to the folder."""
    (project.parent / "link").symlink_to(project)
    assert read(project, path) == read(project.parent / "link", path) == "inside"


@pytest.mark.parametrize("target", ["deep/a.md", "../docs/deep/a.md", "../../link/docs/deep/a.md"])
def test_links_that_stay_inside(project: Path, target: str) -> None:
    """A link to a file or folder of the project is followed, however its target is written."""
    (project.parent / "link").symlink_to(project)
    (project / "docs/file.md").symlink_to(target)
    (project / "docs/folder").symlink_to(Path(target).parent, target_is_directory=True)
    assert read(project, "docs/file.md") == read(project, "docs/folder/a.md") == "inside"


@pytest.mark.parametrize("path", ["../outside/deep/a.md", "docs/out.md", "docs/out/deep/a.md"])
def test_the_outside_is_refused(project: Path, path: str) -> None:
    """Neither `..` nor a link leads out of the folder."""
    (project / "docs/out.md").symlink_to(project.parent / "outside/deep/a.md")
    (project / "docs/out").symlink_to("../../outside")
    with pytest.raises(OutsideError):
        read(project, path)


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="no folder can be held here")
@pytest.mark.parametrize("folder", ["docs", ""])
def test_a_folder_that_becomes_a_link(
    project: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """No folder, not even the top one, leads outside if it is replaced before any step."""
    swapped = project / folder
    outside = project.parent / "outside" if folder else project.parent / "other"
    (project.parent / "other").mkdir()
    (project.parent / "other/docs").symlink_to(project.parent / "outside")
    real, calls, when, reads = os.open, 0, 0, 0

    def swapping(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        nonlocal calls
        if calls == when:
            swapped.rename(project.parent / "aside")
            swapped.symlink_to(outside)
        calls += 1
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    monkeypatch.setattr(os, "supports_dir_fd", os.supports_dir_fd and {swapping})
    while calls >= when:
        calls = 0
        with suppress(OSError, OutsideError):
            assert read(project, "docs/deep/a.md") == "inside"
            reads += 1
        if swapped.is_symlink():
            swapped.unlink()
            (project.parent / "aside").rename(swapped)
        when += 1
    assert 0 < reads < when


def test_what_cannot_be_opened(project: Path) -> None:
    """A missing file, a folder and a link to itself raise errors of the operating system."""
    (project / "loop").symlink_to("loop")
    for path in ("nothing.md", "docs/deep/a.md/b", "docs", "loop"):
        with pytest.raises(OSError, match=r"(No such|Not a|Is a|Too many)"):
            read(project, path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or not os.geteuid(), reason="root may list all")
def test_a_folder_that_may_only_be_passed(project: Path) -> None:
    """A folder that the user can enter but not list does not prevent opening a file."""
    (project / "docs").chmod(0o111)
    assert read(project, "docs/deep/a.md") == "inside"
    (project / "docs").chmod(0o755)
