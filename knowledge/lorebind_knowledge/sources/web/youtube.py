"""Fetch the captions of a YouTube video as WebVTT, with youtube-transcript-api."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import SourceError
from lorebind_config.plugins import import_extra
from lorebind_config.redaction import without
from lorebind_knowledge.sources.base import Content, SourceItem

if TYPE_CHECKING:
    from requests import Session

_WATCHED_AT = "https://www.youtube.com/watch?v="


@dataclass(frozen=True)
class YoutubeCaptions:
    """A source with one video; its uri is the address of the video's page."""

    key: str
    video_id: str
    """The eleven characters after `v=` in the address of the video."""
    languages: Sequence[str]
    """Codes in order of preference."""
    _: KW_ONLY
    timeout_seconds: float
    """Seconds to wait for each response of YouTube."""
    shown_id: str = ""
    """The id as it is shown; by default the id itself."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values to remove from messages; see `redaction.without`."""

    def __post_init__(self) -> None:
        """Refuse an invalid id, and fail early if the extra `youtube` is not installed."""
        if not re.fullmatch("[A-Za-z0-9_-]{1,64}", self.video_id):
            raise SourceError(
                f"{(self.shown_id or self.video_id)[:80]!r} is not a video id; "
                "write the characters after 'v=' in the video's address"
            )
        self._import()

    def _import(self) -> Any:
        return import_extra("youtube_transcript_api", extra="youtube", purpose="provider 'youtube'")

    @property
    def uri(self) -> str:
        return _WATCHED_AT + (self.shown_id or self.video_id)

    def items(self) -> Iterator[SourceItem]:
        yield SourceItem(self.uri, self._read)

    def _read(self, version: str) -> Content:
        try:
            with self._session() as session:
                client = self._import().YouTubeTranscriptApi(http_client=session)
                transcript = client.fetch(self.video_id, languages=self.languages)
        except Exception as error:  # of the library, HTTP or XML: there is no transcript
            cause = _cause(error, self.values)
            raise SourceError(f"{self.uri}: no transcript can be read: {cause}") from error
        if not transcript.snippets:
            raise SourceError(f"{self.uri}: the transcript is empty")
        data = web_vtt(transcript.snippets).encode("utf-8", "replace")
        metadata = {"language": transcript.language_code, "generated": transcript.is_generated}
        return Content(data, "text/vtt", metadata=metadata)

    def _session(self) -> Session:
        from requests import Session
        from requests.adapters import HTTPAdapter

        seconds = self.timeout_seconds

        class Patient(HTTPAdapter):
            """An adapter with a timeout; by default, requests waits forever."""

            def send(self, *args: Any, **kwargs: Any) -> Any:
                return super().send(*args, **kwargs | {"timeout": seconds})

        session = Session()
        session.trust_env = False
        session.mount("https://", Patient())
        return session


def web_vtt(snippets: Iterable[Any]) -> str:
    """Convert snippets with `text`, `start` and `duration`, in seconds, to a WebVTT file.

    YouTube shows a caption until the one after the next; here it ends when the next one starts.
    """
    cues = []
    for snippet, following in pairwise([*snippets, None]):
        end = snippet.start + snippet.duration
        if following is not None and snippet.start < following.start < end:
            end = following.start
        lines = [line.strip() for line in snippet.text.splitlines()]
        text = html.escape("\n".join(line for line in lines if line), quote=False)
        cues.append(f"{_time(snippet.start)} --> {_time(end)}\n{text}\n")
    return "\n".join(["WEBVTT\n", *cues])


def _time(seconds: float) -> str:
    milliseconds = timedelta(seconds=seconds) // timedelta(milliseconds=1)
    rest, milliseconds = divmod(milliseconds, 1000)
    minutes, rest = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest:02}.{milliseconds:03}"


def _cause(error: Exception, values: Mapping[str, str]) -> str:
    """Return the cause in one line, without the library's advice around it."""
    cause = getattr(error, "cause", "") or error
    message = without(f"{type(error).__name__}: {cause}", values)
    return re.sub(r"\s+", " ", message)[:300]
