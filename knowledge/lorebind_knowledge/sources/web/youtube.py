"""Fetch the captions of a YouTube video as WebVTT, with youtube-transcript-api."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import SourceError
from lorebind_config.extras import import_extra
from lorebind_config.redaction import without
from lorebind_knowledge.sources.base import Content, SourceItem, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from requests import Session

_WATCHED_AT = "https://www.youtube.com/watch?v="


class YoutubeCaptions:
    """A source with one video; its uri is the address of the video's page."""

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
        """Create the source.

        Args:
            key: the source's key.
            video_id: the eleven characters after `v=` in the address of the video.
            languages: language codes in order of preference.
            timeout_seconds: seconds to wait for each response of YouTube.
            max_bytes: maximum size of the transcript.
            shown_id: the id as it is shown; by default the id itself.
            values: values to remove from messages; see `redaction.without`.
            make_session: creates the HTTP session for a read; by default a plain one with the
                timeout.

        Raises:
            SourceError: the id is invalid.
            MissingDependencyError: the extra `youtube` is not installed.
        """
        if not re.fullmatch("[A-Za-z0-9_-]{1,64}", video_id):
            raise SourceError(
                f"{(shown_id or video_id)[:80]!r} is not a video id; "
                "write the characters after 'v=' in the video's address"
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
        yield SourceItem(self.uri, self._read)

    def _read(self, version: str) -> Content:
        try:
            with self._make_session() as session:
                client = self._api.YouTubeTranscriptApi(http_client=session)
                transcript = client.fetch(self._video_id, languages=self._languages)
        except (
            Exception
        ) as error:  # errors of the library, HTTP or XML: all mean that there is no transcript
            said = _cause(error, self._values)
            raise SourceError(f"{self.uri}: no transcript can be read: {said}") from error
        if not transcript.snippets:
            raise SourceError(f"{self.uri}: the transcript is empty")
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
    cause = getattr(error, "cause", "")
    said = without(f"{type(error).__name__}: {cause or error}", values)
    return re.sub(r"\s+", " ", said)[:300]
