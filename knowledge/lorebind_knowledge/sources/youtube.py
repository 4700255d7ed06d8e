"""The captions of a YouTube video as WebVTT, by way of youtube-transcript-api."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.extras import import_extra
from lorebind_knowledge.redaction import without
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.limits import too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from requests import Session

_WATCHED_AT = "https://www.youtube.com/watch?v="


class YoutubeCaptions:
    """One video, whose uri is the address that it is watched at."""

    def __init__(
        self,
        key: str,
        video_id: str,
        languages: Sequence[str],
        *,
        timeout_seconds: float,
        max_bytes: int,
        shown_id: str | None = None,
        values: Mapping[str, str] | None = None,
        make_session: Callable[[], Session] | None = None,
    ) -> None:
        """
        Args:
            key: the source's key.
            video_id: the eleven characters behind `v=` in the address of the video.
            languages: codes of languages, the preferred first.
            timeout_seconds: how long YouTube may be silent.
            max_bytes: the size of the largest transcript.
            shown_id: the id as it is shown; itself when left out.
            values: what is taken out of messages, see `redaction.without`.
            make_session: gives the HTTP session of a read, for those who need one of their own.

        Raises:
            SourceError: when the id cannot be one.
            MissingDependencyError: when the extra `youtube` is not installed.
        """
        if not re.fullmatch("[A-Za-z0-9_-]{1,64}", video_id):
            raise SourceError(
                f"{(shown_id or video_id)[:80]!r} is not the id of a video; "
                "write what stands behind 'v=' in its address"
            )
        self._api = import_extra(
            "youtube_transcript_api", extra="youtube", purpose="provider 'youtube'"
        )
        self.key = key
        self._video_id = video_id
        self._shown_id = shown_id or video_id
        self._values = values or {}
        self._languages = list(languages)
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_bytes
        self._make_session = make_session or self._session

    @property
    def uri(self) -> str:
        return _WATCHED_AT + self._shown_id

    def items(self) -> Iterator[SourceItem]:
        yield SourceItem(self.uri, self._read, _WATCHED_AT + self._video_id)

    def _read(self, version: str) -> Content:
        try:
            with self._make_session() as session:
                client = self._api.YouTubeTranscriptApi(http_client=session)
                transcript = client.fetch(self._video_id, languages=self._languages)
        except Exception as error:  # the library's, of HTTP, of XML: all mean the same here
            said = _cause(error, self._values)
            raise SourceError(f"{self.uri}: has no transcript to read: {said}") from error
        if not transcript.snippets:
            raise SourceError(f"{self.uri}: has a transcript without a word")
        data = web_vtt(transcript.snippets).encode("utf-8", "replace")
        if len(data) > self._max_bytes:
            raise too_large(self.uri, self._max_bytes)
        metadata = {"language": transcript.language_code, "generated": transcript.is_generated}
        return Content(data, "text/vtt", metadata=metadata)

    def _session(self) -> Session:
        from requests import Session
        from requests.adapters import HTTPAdapter

        seconds = self._timeout_seconds

        class Patient(HTTPAdapter):
            """Requests wait for ever when nothing is said of a timeout."""

            def send(self, *args: Any, **kwargs: Any) -> Any:
                return super().send(*args, **kwargs | {"timeout": seconds})

        session = Session()
        session.trust_env = False
        session.mount("https://", Patient())
        return session


def web_vtt(snippets: Iterable[Any]) -> str:
    """Snippets with `text`, `start` and `duration`, in seconds, as a WebVTT file.

    YouTube lets a caption stand until the one after the next; here it ends when the next begins.
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
    """The cause in one line: the library puts advice of many lines around it."""
    cause = getattr(error, "cause", "")
    said = without(f"{type(error).__name__}: {cause or error}", values)
    return re.sub(r"\s+", " ", said)[:300]
