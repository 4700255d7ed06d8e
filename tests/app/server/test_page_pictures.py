"""Pages as pictures over HTTP, and by a remote project."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from lorebind import Project
from lorebind.plain_data import as_data
from lorebind.remote.project import RemoteProject
from lorebind_config.errors import DocumentChangedError, NotFoundError
from tests.knowledge.documents import pdf_bytes

from .conftest import problem, serving, token_of, write_project

pytest.importorskip("PIL", reason="Pillow is not installed")

DECLARED = {
    "name": "pages",
    "knowledge_bases": [{"id": "docs", "sources": [{"type": "file_glob", "path": "docs/*"}]}],
}
URI = "docs/keys.pdf"
INVALID = (422, "invalid_request")


def test_a_page_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right `read` suffices, and errors are those of a folder."""
    folder = write_project(tmp_path, DECLARED)
    file = folder / URI
    file.parent.mkdir()
    file.write_bytes(pdf_bytes(["Keys are at the reception."]))
    with Project.load(folder) as project:
        docs = project.knowledge_base("docs")
        docs.ingest()
        here = docs.page_picture(URI, 1)
        boxes = docs.page_boxes(URI, 1, start=9, end=27)
        where = f"/knowledge-bases/docs/documents/{docs.document(URI).id}/pages"
    token = token_of(folder, "read")
    with serving(folder) as server, server.client() as stranger:
        assert problem(stranger.get(f"{where}/1")) == (401, "unauthenticated")
        with server.client(headers={"Authorization": f"Bearer {token}"}) as api:
            drawn: httpx.Response = api.get(f"{where}/1")
            assert (drawn.headers["content-type"], drawn.content) == ("image/png", here)
            marked = api.get(f"{where}/1/boxes", params={"start": 9, "end": 27}).json()["items"]
            assert marked == as_data(boxes)
            assert [box["text"] for box in marked] == ["at the reception."]
            for wrong in ({"start": -1}, {"start": 9, "end": 3}):
                assert problem(api.get(f"{where}/1/boxes", params=wrong)) == INVALID
            assert problem(api.get(f"{where}/2/boxes")) == (404, "not_found")
            assert problem(api.get(f"{where}/2")) == (404, "not_found")
            assert problem(api.get(f"{where}/x")) == INVALID
            file.write_bytes(b"%PDF-1.4 changed")
            assert problem(api.get(f"{where}/1")) == (409, "document_changed")
        monkeypatch.setenv("LOREBIND_TOKEN", token)
        with RemoteProject(f"unix:{server.socket}") as remote:
            docs = remote.knowledge_base("docs")
            with pytest.raises(DocumentChangedError, match="ingest again"):
                docs.page_picture(URI, 1)
            file.write_bytes(pdf_bytes(["Keys are at the reception."]))
            assert docs.page_picture(URI, 1) == here
            assert docs.page_boxes(URI, 1, start=9, end=27) == boxes
            with pytest.raises(NotFoundError, match="has no page 2; it has page 1 only"):
                docs.page_picture(docs.documents()[0].id, 2)
