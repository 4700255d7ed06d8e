"""From a declared source to the object that lists its documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.configuration import confided, templates
from lorebind_knowledge.configuration.named_code import named_class
from lorebind_knowledge.configuration.plugged import PluginEnvironment
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
from lorebind_knowledge.sources.redacting import RedactingSource
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

_NAMED_HERE = (
    MarkdownGlobSource,
    FileGlobSource,
    UrlSource,
    MediaTranscriptSource,
    CloudStorageSource,
    InlineSource,
)
"""Their documents are named by what is declared, and not by what others make of it."""


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
    maker = _Maker(environment, workflow)
    try:
        source = maker.make(declaration)
    except LorebindError as error:
        source = _Unmade(_key(declaration), error)
    names = not isinstance(declaration, _NAMED_HERE)
    return RedactingSource(source, maker.confided.told, names=names)


class _Unmade:
    """A source that could not be made."""

    def __init__(self, key: str, error: LorebindError) -> None:
        self.key = key
        self._error = error

    def items(self) -> Iterable[SourceItem]:
        raise SourceError(str(self._error)) from self._error


class _Hidden(LazyScope):
    """The scope `secrets` in the uris of earlier versions, which did not hide those of `env`."""

    def __getitem__(self, name: str) -> str:
        return HIDDEN


class _Maker:
    """Makes sources for one project, with one set of scopes for templates."""

    def __init__(self, environment: Environment, workflow: Mapping[str, Any] | None) -> None:
        self._root = environment.root
        of_run: dict[str, Any] = {}
        if workflow is not None:
            of_run = {"workflow": workflow, "input": workflow.get("input", {})}
        self.confided = PluginEnvironment(environment, of_run)
        self._scopes = {**environment.confided_scopes(), **of_run}
        self._former = {**environment.scopes(), "secrets": _Hidden(), **confided.plain(of_run)}

    def make(self, written: SourceDeclaration) -> Source:
        match written:
            case MarkdownGlobSource() | FileGlobSource():
                return self._files(written)
            case UrlSource():
                return self._web(written)
            case MediaTranscriptSource():
                return self._transcripts(written)
            case CloudStorageSource():
                return self._bucket(written)
            case InlineSource():
                from lorebind_knowledge.sources.inline import InlineDocuments

                return InlineDocuments(_key(written), written.documents, written.max_bytes)
            case LangChainSource():
                from langchain_core.document_loaders import BaseLoader

                from lorebind_knowledge.sources.langchain import LangChainDocuments

                settings = self._filled(written)[0].config
                expected = "a class derived from LangChain's BaseLoader"
                kind = named_class(
                    written, self.confided, expected, BaseLoader, failure=SourceError
                )
                return LangChainDocuments(
                    _key(written),
                    written.class_path,
                    kind,
                    written=written.config,
                    settings=settings,
                    max_bytes=written.max_bytes,
                )
        from lorebind_knowledge.sources.plugged import make_plugged_source

        return make_plugged_source(written, self.confided, _key(written))

    def _filled(
        self, written: AnyDeclaration
    ) -> tuple[AnyDeclaration, AnyDeclaration, AnyDeclaration]:
        """A declaration with its templates filled in: as it is, as it is shown, as it once was."""
        fields = _filled(written, self._scopes)
        self.confided.told |= confided.values_in(fields)
        real = written.model_copy(update=confided.plain(fields))
        shown = written.model_copy(update=confided.shown(fields))
        return real, shown, written.model_copy(update=_filled(written, self._former))

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

        addresses = [filled.addresses for filled in self._filled(written)]
        fetcher = self._fetcher(written.fetch, written.max_bytes)
        return WebSource(_key(written), zip(*addresses, strict=True), fetcher)

    def _bucket(self, written: CloudStorageSource) -> Source:
        from lorebind_knowledge.sources.cloud import BucketSource, address_of, make_bucket

        filled, shown, former = self._filled(written)
        values = self.confided.told
        return BucketSource(
            _key(written),
            make_bucket(filled, shown, written.config, values, self._root),
            filled.prefix,
            filled.pattern,
            shown_prefix=shown.prefix,
            former=address_of(former.provider, former.bucket),
        )

    def _fetcher(self, written: FetchConfig, max_bytes: int) -> Fetcher:
        from lorebind_knowledge.sources.fetcher import Fetcher

        return Fetcher(
            timeout_seconds=written.timeout_seconds,
            max_redirects=written.max_redirects,
            allow=written.allow,
            headers=self._filled(written)[0].headers,
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
        filled, shown, _ = self._filled(written)
        if filled.video_id is not None:
            from lorebind_knowledge.sources.youtube import YoutubeCaptions

            captions = YoutubeCaptions(
                key,
                filled.video_id,
                written.languages,
                timeout_seconds=written.fetch.timeout_seconds,
                max_bytes=written.max_bytes,
                shown_id=shown.video_id,
                values=self.confided.told,
            )
            parts.append(captions)
        return Transcripts(key, parts)


def _filled(written: Declaration, scopes: Mapping[str, Any]) -> dict[str, Any]:
    """The templated fields of a declaration with their templates replaced.

    Raises:
        SourceError: for a template that stands for nothing, or not for what belongs there.
    """
    changes: dict[str, Any] = {}
    for field in written.templated:
        before = getattr(written, field)
        try:
            after = templates.fill(before, scopes)
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
    return changes


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
