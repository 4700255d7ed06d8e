"""From a declared source to the object that lists its documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.configuration import templates
from lorebind_knowledge.configuration.templates import LazyScope, TemplateError
from lorebind_knowledge.declarations.secrets import is_secret_path
from lorebind_knowledge.declarations.sources import (
    CloudStorageSource,
    FileGlobSource,
    InlineSource,
    LangChainSource,
    MarkdownGlobSource,
    MediaTranscriptSource,
    UrlSource,
)
from lorebind_knowledge.errors import LorebindError, SourceError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.redaction import HIDDEN
from lorebind_knowledge.sources.web_address import without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.base import Declaration, Path
    from lorebind_knowledge.declarations.sources import FetchConfig, SourceDeclaration
    from lorebind_knowledge.sources.base import Source, SourceItem
    from lorebind_knowledge.sources.fetcher import Fetcher
    from lorebind_knowledge.sources.files import FileSource

    AnyDeclaration = TypeVar("AnyDeclaration", bound=Declaration)

_LONGEST_KEY = 200


def make_source(
    declaration: SourceDeclaration,
    environment: Environment,
    *,
    workflow: Mapping[str, Any] | None = None,
) -> Source:
    """The source that a declaration names. Nothing is opened or fetched yet.

    Never raises: a source that cannot be made, because a template of it stands for nothing or an
    extra is not installed, fails when it is enumerated, as others fail that are not there. It has
    the same key then, so that what was ingested from it is kept.

    Args:
        declaration: the declaration.
        environment: of the project; its scopes are known to templates, its folder holds the files.
        workflow: what templates know as `workflow`, with `input` and `vars`; None outside of one.
    """
    try:
        return _Maker(environment, workflow).make(declaration)
    except LorebindError as error:
        return _Unmade(_key(declaration), error)


class _Unmade:
    """A source that could not be made."""

    def __init__(self, key: str, error: LorebindError) -> None:
        self.key = key
        self._error = error

    def items(self) -> Iterable[SourceItem]:
        raise SourceError(str(self._error)) from self._error


class _Hidden(LazyScope):
    """The scope `secrets` in what is shown to people."""

    def __getitem__(self, name: str) -> str:
        return HIDDEN


class _Maker:
    """Makes sources for one project, with one set of scopes for templates."""

    def __init__(self, environment: Environment, workflow: Mapping[str, Any] | None) -> None:
        self._environment = environment
        self._root = environment.root
        self._of_run: dict[str, Any] = {}
        if workflow is not None:
            self._of_run = {"workflow": workflow, "input": workflow.get("input", {})}
        self._scopes: dict[str, Any] = {**environment.scopes(), **self._of_run}

    def make(self, written: SourceDeclaration) -> Source:
        match written:
            case MarkdownGlobSource() | FileGlobSource():
                return self._files(written)
            case UrlSource():
                return self._web(written)
            case MediaTranscriptSource():
                return self._transcripts(written)
            case CloudStorageSource():
                from lorebind_knowledge.sources.cloud import BucketSource, make_bucket

                filled = _filled(written, self._scopes)
                bucket = make_bucket(filled, written.config, self._root)
                return BucketSource(_key(written), bucket, filled.prefix, filled.pattern)
            case InlineSource():
                from lorebind_knowledge.sources.inline import InlineDocuments

                return InlineDocuments(_key(written), written.documents, written.max_bytes)
            case LangChainSource():
                from lorebind_knowledge.sources.langchain import LangChainDocuments

                return LangChainDocuments(
                    _key(written),
                    written.class_path,
                    written=written.config,
                    settings=_filled(written, self._scopes).config,
                    max_bytes=written.max_bytes,
                )
        from lorebind_knowledge.sources.plugged import make_plugged_source

        return make_plugged_source(written, self._environment, self._of_run, _key(written))

    def _files(
        self,
        written: MarkdownGlobSource | FileGlobSource | MediaTranscriptSource,
        endings: tuple[str, ...] = (),
    ) -> FileSource:
        from lorebind_knowledge.sources.files import FileSource

        return FileSource(
            written.type,
            written.patterns,
            self._root,
            exclude=written.exclude,
            max_bytes=written.max_bytes,
            endings=endings,
        )

    def _web(self, written: UrlSource | MediaTranscriptSource) -> Source:
        from lorebind_knowledge.sources.url import WebSource

        real = _filled(written, self._scopes).addresses
        public = _filled(written, self._scopes | {"secrets": _Hidden()}).addresses
        fetcher = self._fetcher(written.fetch, written.max_bytes)
        return WebSource(_key(written), zip(real, public, strict=True), fetcher)

    def _fetcher(self, written: FetchConfig, max_bytes: int) -> Fetcher:
        from lorebind_knowledge.sources.fetcher import Fetcher

        return Fetcher(
            timeout_seconds=written.timeout_seconds,
            max_redirects=written.max_redirects,
            allow=written.allow,
            headers=_filled(written, self._scopes).headers,
            max_bytes=max_bytes,
        )

    def _transcripts(self, written: MediaTranscriptSource) -> Source:
        from lorebind_knowledge.sources.transcripts import TRANSCRIPT_ENDINGS, Transcripts

        key = _key(written)
        parts: list[Source] = []
        if written.patterns:
            parts.append(self._files(written, TRANSCRIPT_ENDINGS))
        if written.addresses:
            parts.append(self._web(written))
        video_id = _filled(written, self._scopes).video_id
        if video_id is not None:
            from lorebind_knowledge.sources.youtube import YoutubeCaptions

            captions = YoutubeCaptions(
                key,
                video_id,
                written.languages,
                timeout_seconds=written.fetch.timeout_seconds,
                max_bytes=written.max_bytes,
            )
            parts.append(captions)
        return Transcripts(key, parts)


def _filled(written: AnyDeclaration, scopes: Mapping[str, Any]) -> AnyDeclaration:
    """A declaration with the templates of its own fields replaced.

    Raises:
        SourceError: for a template that stands for nothing, or not for what belongs there.
    """
    changes: dict[str, Any] = {}
    for field in written.templated:
        before = getattr(written, field)
        try:
            after = templates.resolve(before, scopes)
        except TemplateError as error:
            raise SourceError(f"{field}: {error}") from error
        pairs = zip(before, after, strict=True) if isinstance(before, list) else [(before, after)]
        for text, value in pairs:
            if isinstance(text, str) and not isinstance(value, str):
                kind = type(value).__name__
                raise SourceError(f"{field}: {text} stands for a value of type {kind}, not a text")
            if text and value == "":
                raise SourceError(f"{field}: {text} stands for an empty text")
        changes[field] = after
    return written.model_copy(update=changes)


def _key(written: SourceDeclaration) -> str:
    """A declaration's name in ledger and reports: as it stands in the file, without passwords."""
    match written:
        case MarkdownGlobSource() | FileGlobSource():
            names = written.patterns
        case UrlSource():
            names = written.addresses
        case MediaTranscriptSource():
            video = [] if written.video_id is None else [f"{written.provider} {written.video_id}"]
            names = [*written.patterns, *written.addresses, *video]
        case CloudStorageSource():
            place = f"{written.provider}://{written.bucket}/{written.prefix}"
            names = [place, written.pattern, *_mark(written.config)]
        case InlineSource():
            return written.type
        case LangChainSource():
            names = [written.class_path, *_mark(written.config)]
        case _:  # a plugin's
            names = list(_settings(written.written()))
    key = f"{written.type}:{','.join(map(without_credentials, names))}"
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[: _LONGEST_KEY - 20]}... {digest(key)[:12]}"


def _settings(written: Any, path: Path = ()) -> Iterator[str]:
    """Settings in one line, `config.folder=notes`, but for those whose name says secret."""
    if isinstance(written, dict):
        for name, value in written.items():
            if (*path, name) not in (("type",), ("max_bytes",)):
                yield from _settings(value, (*path, name))
    else:
        shown = HIDDEN if is_secret_path(path) else json.dumps(written, ensure_ascii=False)
        yield f"{'.'.join(map(str, path))}={shown}"


def _mark(config: Mapping[str, Any]) -> list[str]:
    """What tells settings from others, in a few characters."""
    return [digest(json.dumps(config, sort_keys=True))[:8]] if config else []
