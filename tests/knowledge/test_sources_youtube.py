"""Captions of videos, with the library's own client and an HTTP session of the test."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import webvtt
from pydantic import TypeAdapter
from requests.adapters import BaseAdapter

from lorebind_config.declarations.sources import SourceDeclaration
from lorebind_config.errors import SourceError
from lorebind_config.templates import Environment
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.sources.make import RedactingSource, SourceEnvironment
from lorebind_knowledge.sources.web.youtube import YoutubeCaptions, web_vtt

WATCH, PLAYER, TRACK = "/watch", "/youtubei/v1/player", "/api/timedtext"
CAPTIONS = (
    b'<?xml version="1.0" encoding="utf-8" ?><transcript>'
    b'<text start="0.5" dur="3.25">R&amp;amp;D: a &amp;lt; b</text>'
    b'<text start="2" dur="3600.001">line one\n\nline two --&amp;gt; end</text></transcript>'
)


class _Youtube(BaseAdapter):
    """A replacement for the network of a session."""

    def __init__(self, changed: Mapping[str, bytes | int | Exception]) -> None:
        super().__init__()
        tracks = [
            {
                "baseUrl": f"https://www.youtube.com{TRACK}?v=abc&lang={language}",
                "name": {"runs": [{"text": language}]},
                "languageCode": language,
                "isTranslatable": False,
            }
            for language in ("en", "de")
        ]
        renderer = {"captionTracks": tracks, "translationLanguages": []}
        player = {
            "playabilityStatus": {"status": "OK"},
            "captions": {"playerCaptionsTracklistRenderer": renderer},
        }
        self.requests: list[str] = []
        self._answers: dict[str, bytes | int | Exception] = {
            WATCH: b'<html>"INNERTUBE_API_KEY": "a-public-key"</html>',
            PLAYER: json.dumps(player).encode(),
            TRACK: CAPTIONS,
            **changed,
        }

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        self.requests.append(request.url)
        answer = self._answers[request.path_url.partition("?")[0]]
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.request, response.url = request, request.url
        response.status_code = answer if isinstance(answer, int) else 200
        response.raw = io.BytesIO(b"" if isinstance(answer, int) else answer)
        response.encoding = "utf-8"
        return response

    def close(self) -> None:
        pass


def captions(
    changed: Mapping[str, bytes | int | Exception] | None = None, **settings: Any
) -> tuple[YoutubeCaptions, _Youtube]:
    network = _Youtube(changed or {})

    class Captions(YoutubeCaptions):
        def _session(self) -> requests.Session:
            session = requests.Session()
            session.mount("https://", network)
            return session

    declared = {"languages": ["en"], "timeout_seconds": 5} | settings
    return Captions("key", "abc-_123", **declared), network


def read(source: YoutubeCaptions) -> Content:
    (item,) = source.items()
    content = item.read("")
    assert isinstance(content, Content)
    return content


def test_captions() -> None:
    """Captions are returned as WebVTT, whose cues have their times and words."""
    source, network = captions()
    (item,) = source.items()
    assert item.uri == "https://www.youtube.com/watch?v=abc-_123"
    assert not network.requests
    content = read(source)
    assert (content.media_type, content.version) == ("text/vtt", "")
    assert content.metadata == {"language": "en", "generated": False}
    cues = webvtt.from_string(content.data.decode()).captions
    assert [(cue.start, cue.end, cue.raw_text) for cue in cues] == [
        ("00:00:00.500", "00:00:02.000", "R&amp;D: a &lt; b"),
        ("00:00:02.000", "01:00:02.001", "line one\nline two --&gt; end"),
    ]


def test_languages() -> None:
    """The first available language is used."""
    source, _ = captions(languages=["fr", "de", "en"])
    assert read(source).metadata["language"] == "de"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({WATCH: 404}, "YouTubeRequestFailed"),
        ({WATCH: 429}, "IpBlocked"),
        ({WATCH: requests.ConnectionError("no route")}, "ConnectionError: no route"),
        ({WATCH: requests.Timeout("too slow")}, "Timeout: too slow"),
        ({PLAYER: b"not json"}, "JSONDecodeError"),
        ({PLAYER: b'{"playabilityStatus": {"status": "OK"}}'}, "TranscriptsDisabled"),
        ({PLAYER: b"{}"}, "AttributeError"),
        ({TRACK: b"<transcript>"}, "ParseError"),
        ({TRACK: b"<transcript></transcript>"}, "the transcript is empty"),
    ],
)
def test_failures(changed: Mapping[str, Any], says: str) -> None:
    """Any failure is an error of this video, in one line."""
    source, _ = captions(changed)
    with pytest.raises(
        SourceError, match=r"^https://www\.youtube\.com/watch\?v=abc-_123: "
    ) as caught:
        read(source)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_language_that_is_not_there() -> None:
    """A video without captions in the requested languages fails with that reason."""
    source, _ = captions(languages=["fr"])
    with pytest.raises(SourceError, match="NoTranscriptFound"):
        read(source)


def test_size(tmp_path: Path) -> None:
    """A transcript that is larger than declared is refused, as documents of all sources are."""
    source, _ = captions()
    written = {"type": "media_transcript", "provider": "youtube", "video_id": "abc-_123"}
    declaration: SourceDeclaration = TypeAdapter(SourceDeclaration).validate_python(
        {**written, "max_bytes": 64}
    )
    environment = SourceEnvironment(Environment(tmp_path, {}), "key", None)
    (item,) = RedactingSource(source, declaration, environment).items()
    with pytest.raises(SourceError, match="is larger than 64 bytes"):
        item.read("")


@pytest.mark.parametrize("video_id", ["https://youtu.be/abc", "", "a b", "../x"])
def test_what_is_no_id(video_id: str) -> None:
    """An address in place of the video's id is refused with a suggested fix."""
    with pytest.raises(SourceError, match="write the characters after 'v='"):
        YoutubeCaptions("key", video_id, ["en"], timeout_seconds=5)


def test_its_own_session() -> None:
    """Requests of its own session have a timeout and ignore proxies of the environment."""
    source = YoutubeCaptions("key", "abc", ["en"], timeout_seconds=7)
    with source._session() as session:
        adapter = session.get_adapter("https://www.youtube.com/")
        seen: dict[str, Any] = {}

        def manager(*args: Any, **kwargs: Any) -> Any:
            raise requests.ConnectionError("stopped here")

        adapter.get_connection_with_tls_context = manager  # type: ignore[attr-defined]
        original = type(adapter).__mro__[1].send

        def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen.update(kwargs)
            return original(self, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(adapter).__mro__[1], "send", noting)
            with pytest.raises(requests.ConnectionError, match="stopped here"):
                session.get("https://www.youtube.com/")
    assert seen["timeout"] == 7
    assert not session.trust_env


def test_overlapping_captions() -> None:
    """A caption ends where the next one begins, unless both begin at the same time."""
    starts = [(0, 5), (2, 5), (2, 1), (9, 0.5)]
    snippets = [SimpleNamespace(text=str(s), start=s, duration=d) for s, d in starts]
    cues = webvtt.from_string(web_vtt(snippets)).captions
    assert [(cue.start[6:], cue.end[6:]) for cue in cues] == [
        ("00.000", "02.000"),
        ("02.000", "07.000"),
        ("02.000", "03.000"),
        ("09.000", "09.500"),
    ]
