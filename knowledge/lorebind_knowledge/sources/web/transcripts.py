"""The source `media_transcript`: transcripts of recordings, from files, addresses and videos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.sources import one_of
from lorebind_knowledge.sources.folder.files import A_PATH, PATHS, Files, make_files
from lorebind_knowledge.sources.web import url as web
from lorebind_knowledge.sources.web.url import A_URL, URLS, Web

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants
    from lorebind_knowledge.sources.base import Source, SourceItem
    from lorebind_knowledge.sources.make import SourceEnvironment

TRANSCRIPT_ENDINGS = (".vtt", ".srt")


class MediaTranscriptSource(Web, Files):
    """Transcripts of recordings: .vtt and .srt files, or the captions of a video."""

    declares_uris: ClassVar[bool] = True

    model_config = one_of(  # the same as `_has_a_transcript`
        A_PATH,
        PATHS,
        A_URL,
        URLS,
        {"required": ["provider", "video_id"], "properties": {"video_id": {"type": "string"}}},
    )
    templated: ClassVar[tuple[str, ...]] = (*Files.templated, "url", "urls", "video_id")

    type: Literal["media_transcript"] = Field(description="Transcripts with timestamps.")
    provider: Literal["youtube"] | None = Field(
        None, description="The platform of the video, with or without files and addresses."
    )
    video_id: str | None = Field(None, min_length=1, description="The video's id on the platform.")
    languages: list[str] = Field(
        default_factory=lambda: ["en"],
        min_length=1,
        description="Languages of the captions, in order of preference. Default: `en`.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.provider is not None:
            yield "video_id", "send", "youtube.com"

    @model_validator(mode="after")
    def _has_a_transcript(self) -> MediaTranscriptSource:
        if (self.provider is None) != (self.video_id is None):
            key, other = ("provider", "video_id") if self.provider else ("video_id", "provider")
            raise RefusedError([Fault(f"{key} also needs {other}", path=(key,))])
        if not (self.patterns or self.addresses or self.provider):
            hint = "write 'path', 'url', or 'provider' and 'video_id'"
            raise RefusedError([Fault("the source names no transcript", hint)])
        return self

    @property
    def names(self) -> list[str]:
        video = [] if self.video_id is None else [f"{self.provider} {self.video_id}"]
        return [*self.patterns, *self.addresses, *video]


Declaration = MediaTranscriptSource


def make(declaration: MediaTranscriptSource, environment: SourceEnvironment) -> Transcripts:
    parts: list[Source] = []
    if declaration.patterns:
        files = make_files(declaration, environment, TRANSCRIPT_ENDINGS)
        parts.append(files)
    if declaration.addresses:
        parts.append(web.make(declaration, environment))
    filled, public = environment.filled(declaration)
    if filled.video_id is not None:
        from lorebind_knowledge.sources.web.youtube import YoutubeCaptions

        captions = YoutubeCaptions(
            environment.key,
            filled.video_id,
            declaration.languages,
            timeout_seconds=declaration.fetch.timeout_seconds,
            shown_id=public.video_id or "",
            values=environment.secrets,
        )
        parts.append(captions)
    return Transcripts(environment.key, parts)


@dataclass
class Transcripts:
    """The documents of several sources. If one of them cannot be listed, listing fails."""

    key: str
    parts: Sequence[Source]
    notices: list[str] = field(default_factory=list)

    def items(self) -> Iterator[SourceItem]:
        self.notices = []
        for part in self.parts:
            yield from part.items()
            self.notices += getattr(part, "notices", ())
