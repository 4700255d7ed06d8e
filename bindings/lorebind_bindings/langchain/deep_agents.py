"""Knowledge bases as a read-only file system for agents of `deepagents`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import compile_grep_include_glob

from lorebind_config.errors import LorebindError, NotFoundError, UsageError, did_you_mean
from lorebind_knowledge.documents.finding import find_lines
from lorebind_knowledge.documents.reading import list_readable, read_lines
from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService

_READ_ONLY = "knowledge bases are read-only; write to another path"
_MOST = 1000
"""Maximum number of passages with matches in a knowledge base."""


class KnowledgeBackend(BackendProtocol):  # type: ignore[misc] # its package is optional
    """The documents that searches find, as files: `/KNOWLEDGE_BASE/URI`.

    Pass it to `create_deep_agent(backend=…)`, or as a route of a `CompositeBackend`. Files have the
    lines of the index; lines that no chunk holds are marked, and nothing can be written. It reads
    what the tenant of a call and the `filters` of a binding allow.
    """

    def __init__(self, service: KnowledgeService, bindings: Sequence[ResolvedBinding]) -> None:
        self._service = service
        self._bindings = {
            binding.id: binding
            for binding in bindings
            if not service.open(binding.id, binding.workflow).is_existing
        }

    async def als(self, path: str) -> LsResult:
        """List what is directly below a path."""
        try:
            files = await self._files(path)
        except LorebindError as error:
            return LsResult(error=str(error))
        base = _directory(path)
        entries: dict[str, Any] = {}
        if base == "/":
            entries = {f"/{kb_id}": {"path": f"/{kb_id}", "is_dir": True} for kb_id in files}
        for paths in files.values():
            for file in paths:
                if base != "/" and file.startswith(base):
                    name, _, below = file.removeprefix(base).partition("/")
                    entry = f"{base}{name}"
                    entries[entry] = {"path": entry, "is_dir": bool(below)}
        return LsResult(entries=[entries[name] for name in sorted(entries)])

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Return at most `limit` lines after the first `offset` ones."""
        if limit <= 0:
            data = {"content": "", "encoding": "utf-8"}
            return ReadResult(file_data=data, no_lines_requested=True)
        first = max(0, offset) + 1
        try:
            binding, uri = await self._located(file_path)
            read = await self._read(binding, read_lines, uri, first, first + limit - 1)
        except LorebindError as error:
            return ReadResult(error=str(error))
        texts = dict(read.lines)
        for start, end in read.gaps:  # one line each, so that the others keep their numbers
            texts |= dict.fromkeys(range(start, end + 1), "(this line is not in the index)")
        content = "\n".join(texts[number] for number in range(first, read.last_line + 1))
        return ReadResult(
            file_data={"content": content, "encoding": "utf-8"},
            total_lines=read.document.lines,
            start_line=first,
            end_line=read.last_line,
            next_offset=read.last_line if read.last_line < read.document.lines else None,
        )

    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        """Return the lines that contain a text, in the same case of letters."""
        try:
            base, includes = _directory(path or "/"), _matcher(glob)
            matches: list[Any] = []
            is_cut = False
            for binding in self._below(base):
                result = await self._read(binding, find_lines, pattern, limit=_MOST)
                is_cut = is_cut or bool(result.cut)
                for passage in result.passages:
                    file = _path(binding.id, passage.uri)
                    if f"{file}/".startswith(base) and includes(file[len(base) :] or file):
                        matches += [
                            {"path": file, "line": number, "text": text}
                            for number, text in passage.lines
                            if pattern in text
                        ]
        except LorebindError as error:
            return GrepResult(error=str(error))
        is_cut = is_cut or (max_count is not None and len(matches) > max_count)
        return GrepResult(matches=matches[:max_count], truncated=is_cut)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Return the files whose paths match a pattern."""
        try:
            base, includes = _directory(path or "/"), _matcher(pattern)
            files = await self._files(base)
        except LorebindError as error:
            return GlobResult(error=str(error))
        paths = [file for below in files.values() for file in below if file.startswith(base)]
        matches = [{"path": file, "is_dir": False} for file in paths if includes(file[len(base) :])]
        return GlobResult(matches=matches)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Refuse to write."""
        return WriteResult(error=_READ_ONLY)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Refuse to write."""
        return EditResult(error=_READ_ONLY)

    def delete(self, file_path: str) -> DeleteResult:
        """Refuse to delete."""
        return DeleteResult(error=_READ_ONLY)

    ls = sync(als)
    read = sync(aread)
    grep = sync(agrep)
    glob = sync(aglob)

    async def _files(self, path: str) -> dict[str, dict[str, str]]:
        """Return the uris of the documents by path, for each knowledge base that a path names."""
        files: dict[str, dict[str, str]] = {}
        for binding in self._below(_directory(path)):
            documents = await self._read(binding, list_readable)
            files[binding.id] = {
                _path(binding.id, document.uri): document.uri for document in documents
            }
        return files

    async def _located(self, path: str) -> tuple[ResolvedBinding, str]:
        path = _directory(path).rstrip("/")
        for paths in (await self._files(path)).values():
            if path in paths:
                return self._bindings[path.split("/")[1]], paths[path]
        raise NotFoundError(f"there is no file {path!r}; ls or glob lists the files")

    def _below(self, base: str) -> Sequence[ResolvedBinding]:
        """Return the bindings of the knowledge base that a path names; of all for `/`."""
        kb_id = base.split("/")[1]
        if kb_id and kb_id not in self._bindings:
            known = did_you_mean(kb_id, self._bindings)
            raise NotFoundError(f"there is no folder /{kb_id}; {known}")
        return [self._bindings[kb_id]] if kb_id else list(self._bindings.values())

    async def _read(
        self, binding: ResolvedBinding, read: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        handle = self._service.open(binding.id, binding.workflow)
        await handle.start()
        return await handle.read(read, *args, where=binding.settings.filters, **options)


def _path(kb_id: str, uri: str) -> str:
    """Return the path of a document: its uri without empty parts, as agents normalize paths."""
    return _normal(f"/{kb_id}/{uri}")


def _directory(path: str) -> str:
    """Return a path with one slash at each end."""
    inside = _normal(f"/{path}").strip("/")
    return f"/{inside}/" if inside else "/"


def _normal(path: str) -> str:
    return normpath(re.sub("/+", "/", path))


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    if pattern is None:
        return lambda _: True
    try:
        matcher: Callable[[str], bool] = compile_grep_include_glob(pattern)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return matcher
