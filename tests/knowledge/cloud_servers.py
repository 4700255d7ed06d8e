"""Servers for S3, Google Cloud Storage and Azure buckets on loopback, with pages of two."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from lorebind_knowledge.sources.base import Source

from .web_server import Answer, Request, WebServer

SECRET = "hidden/secret+1"
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=key-id/20261122/us-east-1/s3/aws4_request"}
PAGE = 2
DATE = "Sun, 22 Nov 2026 10:00:00 GMT"


class CloudServer:
    """A bucket named `shelf`."""

    provider: str
    scheme: str
    needs: tuple[str, ...]
    """The packages of the client and the server."""
    settings: str
    """The `config` of a source, as YAML in one line."""

    def __init__(self) -> None:
        self.fault: Callable[[Request], Answer | None]
        """Answers a request instead of the bucket if it returns an answer."""
        self.mend()
        self.sent: list[str] = []
        """Names of the objects whose bytes were requested."""
        self.pages = 0
        self.sources: dict[str, Source] = {}
        """Sources made so far, because making an S3 client is slow."""
        self.web = WebServer()
        self.web.otherwise = self._answer

    @property
    def environ(self) -> dict[str, str]:
        """The environment variables that the settings name."""
        return {"ENDPOINT": self.web.url(""), "KEY": "key-id", "SECRET": SECRET}

    def breaks(self, *names: str) -> None:
        """Fail each request whose target contains one of these, with an error not retried."""
        broken = Answer(b"<Error><Code>No</Code><Message>out of order</Message></Error>", {}, 505)
        self.fault = lambda request: broken if any(x in request.target for x in names) else None

    def mend(self) -> None:
        self.fault = lambda request: None

    def close(self) -> None:
        self.web.close()

    def put(self, name: str, data: bytes) -> None:
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError

    def _allows(self, request: Request) -> bool:
        raise NotImplementedError

    def _refusal(self, request: Request) -> Answer:
        """Return the answer to requests without credentials; it quotes the request."""
        raise NotImplementedError

    def _serve(self, request: Request, path: str, query: dict[str, str]) -> Answer:
        raise NotImplementedError

    def _answer(self, request: Request) -> Answer:
        if (fault := self.fault(request)) is not None:
            return fault
        if not self._allows(request):
            return self._refusal(request)
        target = urlsplit(request.target)
        query = {key: values[0] for key, values in parse_qs(target.query).items()}
        return self._serve(request, unquote(target.path), query)


class S3(CloudServer):
    """S3 served by moto."""

    provider, scheme = "s3", "s3"
    needs = ("s3fs", "moto", "flask_cors")
    settings = (
        "{ endpoint_url: '{{ .env.ENDPOINT }}', key: '{{ .env.KEY }}', "
        "secret: '{{ .secrets.SECRET }}', config_kwargs: { retries: { max_attempts: 0 } } }"
    )

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.test import Client

        self._client = Client(DomainDispatcherApplication(create_backend_app))
        self._client.post("/moto-api/reset")
        self._client.put("/shelf")
        super().__init__()

    def put(self, name: str, data: bytes) -> None:
        answer = self._client.put(f"/shelf/{quote(name)}", data=data, headers=SIGNED)
        assert answer.status_code == 200

    def remove(self, name: str) -> None:
        answer = self._client.delete(f"/shelf/{quote(name)}", headers=SIGNED)
        assert answer.status_code == 204

    def _allows(self, request: Request) -> bool:
        return "Credential=key-id/" in request.headers.get("authorization", "")

    def _refusal(self, request: Request) -> Answer:
        key = request.headers["authorization"].partition("Credential=")[2].partition("/")[0]
        body = f"<Error><Code>InvalidAccessKeyId</Code><Message>{key}?</Message></Error>"
        return Answer(body.encode(), status=403)

    def _serve(self, request: Request, path: str, query: dict[str, str]) -> Answer:
        if "list-type" in query:
            self.pages += 1
        elif request.method == "GET":
            self.sent.append(path.removeprefix("/shelf/"))
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        answer = self._client.open(request.target, method=request.method, headers=headers)
        rest = {k: v for k, v in answer.headers.items() if k.lower() != "content-length"}
        if request.method != "HEAD":
            return Answer(answer.data, rest, answer.status_code)
        return Answer(b"x" * int(answer.headers.get("content-length", 0)), rest, answer.status_code)


class _Written(CloudServer):
    """Base of the servers written here, which hold their objects themselves."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._generation = 1000
        super().__init__()

    def put(self, name: str, data: bytes) -> None:
        self._generation += 1
        self._objects[name] = (data, self._generation)

    def remove(self, name: str) -> None:
        del self._objects[name]

    def _page(self, prefix: str, token: str) -> tuple[list[str], str]:
        """Return the names of a page, and the token for the next page."""
        self.pages += 1
        names = [name for name in sorted(self._objects) if name.startswith(prefix)]
        start = int(token or 0)
        following = start + PAGE
        return names[start:following], str(following) if following < len(names) else ""

    def _part(self, name: str, asked_range: str, headers: dict[str, str]) -> Answer:
        self.sent.append(name)
        data, _ = self._objects[name]
        start, _, end = asked_range.removeprefix("bytes=").partition("-")
        part = data[int(start) : int(end) + 1]
        if not part:
            return Answer(status=416)
        sizes = f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}"
        return Answer(part, {**headers, "Content-Range": sizes}, 206)


class Gcs(_Written):
    """The JSON API of Google Cloud Storage, version 1."""

    provider, scheme = "gcs", "gs"
    needs = ("gcsfs",)
    settings = "{ endpoint_url: '{{ .env.ENDPOINT }}', token: '{{ .secrets.SECRET }}' }"

    def _allows(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {SECRET}"

    def _refusal(self, request: Request) -> Answer:
        token = quote(request.headers["authorization"].removeprefix("Bearer "), safe="")
        return _json({"error": {"code": 401, "message": f"{token} may not list"}}, 401)

    def _serve(self, request: Request, path: str, query: dict[str, str]) -> Answer:
        path = path.removeprefix("/download").removeprefix("/storage/v1/b/")
        bucket, _, rest = path.partition("/o")
        name = rest.removeprefix("/")
        if bucket != "shelf" or (name and name not in self._objects):
            return _json({"error": {"code": 404, "message": "Not Found"}}, 404)
        if not name:
            names, token = self._page(query.get("prefix", ""), query.get("pageToken", ""))
            page = {"kind": "storage#objects", "items": [self._resource(name) for name in names]}
            return _json(page | ({"nextPageToken": token} if token else {}))
        if query.get("alt") == "media":
            return self._part(name, request.headers["range"], {})
        return _json(self._resource(name))

    def _resource(self, name: str) -> dict[str, Any]:
        data, generation = self._objects[name]
        return {
            "kind": "storage#object",
            "name": name,
            "bucket": "shelf",
            "size": str(len(data)),
            "generation": str(generation),
            "metageneration": "1",
            "etag": f"C{generation}=",
        }


class Azure(_Written):
    """The Blob service of Azure, for an account named `account`."""

    provider, scheme = "azure", "abfs"
    needs = ("adlfs",)
    settings = (
        "{ connection_string: 'BlobEndpoint={{ .env.ENDPOINT }}/account;"
        "SharedAccessSignature=sv=2026-02-06&sig={{ .secrets.SECRET }}' }"
    )

    @property
    def environ(self) -> dict[str, str]:
        return super().environ | {"SECRET": quote(SECRET, safe="")}

    def _allows(self, request: Request) -> bool:
        query = parse_qs(urlsplit(request.target).query)
        return query.get("sig") == [SECRET]

    def _refusal(self, request: Request) -> Answer:
        signature = parse_qs(urlsplit(request.target).query)["sig"][0]
        return _failed("AuthenticationFailed", 403, f"Signature {signature} did not match.")

    def _serve(self, request: Request, path: str, query: dict[str, str]) -> Answer:
        container, _, name = path.removeprefix("/account/").partition("/")
        if container != "shelf":
            return _failed("ContainerNotFound", 404)
        if query.get("comp") == "list":
            return self._listing(*self._page(query.get("prefix", ""), query.get("marker", "")))
        if not name:
            return Answer(headers={"ETag": '"0x1"', "Last-Modified": DATE})
        if name not in self._objects:
            return _failed("BlobNotFound", 404)
        data, generation = self._objects[name]
        headers = {
            "ETag": f'"0x{generation}"',
            "Last-Modified": DATE,
            "x-ms-blob-type": "BlockBlob",
        }
        if request.method == "HEAD":
            return Answer(data, headers)
        return self._part(name, request.headers["x-ms-range"], headers)

    def _listing(self, names: list[str], marker: str) -> Answer:
        blobs = ""
        for name in names:
            data, generation = self._objects[name]
            blobs += (
                f"<Blob><Name>{escape(name)}</Name><Properties><Etag>0x{generation}</Etag>"
                f"<Content-Length>{len(data)}</Content-Length><Last-Modified>{DATE}</Last-Modified>"
                "<BlobType>BlockBlob</BlobType></Properties></Blob>"
            )
        return Answer(
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="shelf">'
            f"<Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>".encode(),
            {"Content-Type": "application/xml"},
        )


def _json(body: dict[str, Any], status: int = 200) -> Answer:
    return Answer(json.dumps(body).encode(), {"Content-Type": "application/json"}, status)


def _failed(code: str, status: int, reason: str = "It is not there.") -> Answer:
    body = f"<Error><Code>{code}</Code><Message>{escape(reason)}</Message></Error>"
    return Answer(
        body.encode(), {"Content-Type": "application/xml", "x-ms-error-code": code}, status
    )
