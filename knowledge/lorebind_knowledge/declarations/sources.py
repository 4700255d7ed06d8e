"""`sources:` where the documents of a knowledge base come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.plugging import Open
from lorebind_knowledge.declarations.values import (
    ClassPath,
    ConfigMap,
    FilePattern,
    GlobPattern,
    MetadataMap,
    WebAddress,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.base import Wants

MEGABYTE = 1024 * 1024
DEFAULT_MAX_BYTES = 4 * MEGABYTE


class SourceBase(Declaration):
    """What all sources declare, those of plugins too."""

    label: ClassVar[str] = "source"
    kind_key: ClassVar[str] = "type"

    max_bytes: int = Field(
        DEFAULT_MAX_BYTES,
        ge=1,
        le=1024 * MEGABYTE,
        description="A larger document fails. By default 4 MiB.",
    )


def _one_of(*alternatives: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"anyOf": list(alternatives)})


_A_PATH: dict[str, Any] = {"required": ["path"], "properties": {"path": {"type": "string"}}}
_PATHS: dict[str, Any] = {"required": ["paths"], "properties": {"paths": {"minItems": 1}}}
_A_URL: dict[str, Any] = {"required": ["url"], "properties": {"url": {"type": "string"}}}
_URLS: dict[str, Any] = {"required": ["urls"], "properties": {"urls": {"minItems": 1}}}


class _Files(SourceBase):
    """What the sources share that read files of the project folder."""

    path: FilePattern | None = Field(
        None, description="A file or glob pattern, relative to the project folder."
    )
    paths: list[FilePattern] = Field(
        default_factory=list, description="Several files or patterns, beside or instead of `path`."
    )
    exclude: list[FilePattern] = Field(
        default_factory=list, description="Patterns of files that are not listed."
    )

    @property
    def patterns(self) -> list[str]:
        """All patterns of the source, in the order written: `path`, then `paths`."""
        return ([self.path] if self.path is not None else []) + self.paths


class _GlobSource(_Files):
    model_config = _one_of(_A_PATH, _PATHS)  # the same as `_has_a_pattern`

    @model_validator(mode="after")
    def _has_a_pattern(self) -> _GlobSource:
        if not self.patterns:
            raise RefusedError([Fault("the source names no files", "write 'path' or 'paths'")])
        return self


class MarkdownGlobSource(_GlobSource):
    """Markdown files of the project folder."""

    type: Literal["markdown_glob"] = Field(description="Markdown files by pattern.")


class FileGlobSource(_GlobSource):
    """Files of any supported format of the project folder."""

    type: Literal["file_glob"] = Field(description="Files of any supported format by pattern.")


class FetchConfig(Declaration):
    """How documents are fetched. Private addresses are refused unless they are allowed here."""

    templated: ClassVar[tuple[str, ...]] = ("headers",)

    timeout_seconds: float = Field(
        30, gt=0, le=3600, description="How long a document may take, redirects included."
    )
    max_redirects: int = Field(3, ge=0, le=20, description="The most redirects that are followed.")
    allow: list[str] = Field(
        default_factory=list,
        description="Hosts, addresses and networks that may be reached although they are private.",
    )
    headers: ConfigMap = Field(
        default_factory=dict,
        description="Sent to the addresses written here, not where they redirect to.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.allow:
            yield "allow", "reach", "addresses of private networks"


class _Web(SourceBase):
    """What the sources share that fetch documents."""

    url: WebAddress | None = Field(None, description="An address; http or https.")
    urls: list[WebAddress] = Field(
        default_factory=list, description="Several addresses, beside or instead of `url`."
    )
    fetch: FetchConfig = Field(default_factory=FetchConfig, description="How they are fetched.")

    @property
    def addresses(self) -> list[str]:
        """All addresses of the source, in the order written: `url`, then `urls`."""
        return ([self.url] if self.url is not None else []) + self.urls


class UrlSource(_Web):
    """Documents on the web, one for each address: pages, PDFs, text, whatever has a loader."""

    model_config = _one_of(_A_URL, _URLS)  # the same as `_has_an_address`
    templated: ClassVar[tuple[str, ...]] = ("url", "urls")

    type: Literal["url"] = Field(description="Documents by address.")

    @model_validator(mode="after")
    def _has_an_address(self) -> UrlSource:
        if not self.addresses:
            raise RefusedError([Fault("the source names no address", "write 'url' or 'urls'")])
        return self


class MediaTranscriptSource(_Web, _Files):
    """What is said in recordings: .vtt and .srt files, or the captions of a video."""

    model_config = _one_of(  # the same as `_has_a_transcript`
        _A_PATH,
        _PATHS,
        _A_URL,
        _URLS,
        {"required": ["provider", "video_id"], "properties": {"video_id": {"type": "string"}}},
    )
    templated: ClassVar[tuple[str, ...]] = ("url", "urls", "video_id")

    type: Literal["media_transcript"] = Field(description="Transcripts with their times.")
    provider: Literal["youtube"] | None = Field(
        None, description="Where the video is, beside or instead of files and addresses."
    )
    video_id: str | None = Field(None, min_length=1, description="The video, by its id there.")
    languages: list[str] = Field(
        default_factory=lambda: ["en"],
        min_length=1,
        description="Languages of the captions, the preferred first. By default `en`.",
    )

    @model_validator(mode="after")
    def _has_a_transcript(self) -> MediaTranscriptSource:
        if (self.provider is None) != (self.video_id is None):
            one, other = ("provider", "video_id") if self.provider else ("video_id", "provider")
            raise RefusedError([Fault(f"{one} needs {other} beside it", path=(one,))])
        if not (self.patterns or self.addresses or self.provider):
            hint = "write 'path', 'url', or 'provider' and 'video_id'"
            raise RefusedError([Fault("the source names no transcript", hint)])
        return self


class CloudStorageSource(SourceBase):
    """Objects of a bucket, or files of any file system that fsspec knows."""

    templated: ClassVar[tuple[str, ...]] = ("bucket", "prefix", "config")

    type: Literal["cloud_storage"] = Field(description="Objects below a prefix.")
    provider: Literal["s3", "gcs", "azure", "file", "memory"] = Field(
        description="Whose bucket it is; `file` and `memory` are for trying things out."
    )
    bucket: str = Field(min_length=1, description="The bucket, container or folder.")
    prefix: str = Field("", description="Only objects whose names begin so.")
    pattern: GlobPattern = Field("**", min_length=1, description="A glob pattern below the prefix.")
    config: ConfigMap = Field(
        default_factory=dict, description="Arguments of the fsspec file system, by name."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.provider == "file":
            yield "bucket", "read", "a folder of this machine"
        elif self.provider != "memory":
            yield "bucket", "read", f"a bucket of {self.provider}, with this machine's credentials"


class InlineDocument(Declaration):
    """One document, written here."""

    label: ClassVar[str] = "inline document"

    id: Id = Field(description="Its name, with the ending of its format if it is not plain text.")
    text: str = Field(min_length=1, description="What it says.")
    metadata: MetadataMap = Field(
        default_factory=dict, description="Added to the metadata of its passages."
    )


class InlineSource(SourceBase):
    """Documents written into the YAML itself."""

    type: Literal["inline"] = Field(description="Documents written here.")
    documents: list[InlineDocument] = Field(min_length=1, description="The documents.")

    @model_validator(mode="after")
    def _one_of_each_id(self) -> InlineSource:
        ids = [document.id for document in self.documents]
        faults = [
            Fault(f"inline document id {name!r} is used twice", path=("documents", index, "id"))
            for index, name in enumerate(ids)
            if name in ids[:index]
        ]
        if faults:
            raise RefusedError(faults)
        return self


class LangChainSource(SourceBase):
    """Any document loader class of LangChain."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["langchain"] = Field(description="A document loader class of LangChain.")
    class_path: ClassPath = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments of the class, by name.")


_BuiltIn: TypeAlias = (
    MarkdownGlobSource
    | FileGlobSource
    | UrlSource
    | MediaTranscriptSource
    | CloudStorageSource
    | InlineSource
    | LangChainSource
)
SourceDeclaration: TypeAlias = Annotated[
    _BuiltIn, Field(discriminator="type"), Open("sources", SourceBase, _BuiltIn)
]
"""One of the sources, chosen by `type`: one of these or a plugin's."""
