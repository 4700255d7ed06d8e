"""`…/pack`, `…/unpack` and `…/rollback`: an index as a whole."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from lorebind.knowledge_base import KnowledgeBase
from lorebind.plain_data import as_data
from lorebind.server.bodies import Body, Whole
from lorebind.server.etags import json_response
from lorebind.server.event_streams import PATIENT, Stream, deferred_answer
from lorebind.server.server import FilledByUs, SeenProject, TheServer, Writer, filled_by_us
from lorebind_knowledge.ingest.rollback import RollbackReport
from lorebind_knowledge.packing.pack import PackReport
from lorebind_knowledge.plumbing.bridge import call

MEDIA_TYPE = "application/octet-stream"
_BINARY = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_BLOCK = 1 << 20
_LOOK_SECONDS = 0.05
"""Seconds between two looks at the file that is being written."""

router = APIRouter(prefix="/knowledge-bases/{kb_id}", tags=["knowledge bases"])


@router.post(
    "/pack",
    response_class=Response,
    responses={200: {"description": "The pack", "content": _BINARY}},
)
async def pack(request: Request, server: TheServer, _: Writer, kb: FilledByUs) -> Response:
    """Send the index as one file: texts, vectors, metadata and the declaration, without secrets.

    The file is sent while it is written. If that fails, the connection ends early, and the file is
    incomplete: `unpack` refuses it.
    """
    packing = _Packing(kb)
    await packing.begun()
    name = f"{kb.id}.lorebind"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Stream(server, packing.parts(), MEDIA_TYPE, headers)


@router.post(
    "/unpack",
    responses=PATIENT,
    openapi_extra={"requestBody": {"required": True, "content": _BINARY}},
)
async def unpack(request: Request, server: TheServer, _: Writer, kb: FilledByUs) -> Response:
    """Replace the index by that of a pack, whose bytes are the body.

    Searches use the old index until the new one is complete. No text is embedded if the knowledge
    base has the embedder of the pack.
    """
    file = await _received(request)

    async def unpacking() -> Any:
        with file:
            return await kb.handle.unpack(file)

    return await deferred_answer(request, server, unpacking())


class RollbackRequest(Body):
    """The index to go back to."""

    workflow: str | None = Field(
        None, description="The workflow that declares the knowledge base, if a workflow does."
    )
    index: Annotated[int, Field(ge=1, lt=1 << 31), Whole] | None = Field(
        None,
        description="The number of an earlier index. Default: the newest before the current one.",
    )


@router.post("/rollback", response_model=RollbackReport)
async def rollback(project: SeenProject, _: Writer, kb_id: str, body: RollbackRequest) -> Any:
    """Search an earlier index again, such as the one before the last reindex."""
    kb = filled_by_us(project.knowledge_base(kb_id, workflow=body.workflow))
    return json_response(as_data(await kb.arollback(body.index)))


async def _received(request: Request) -> BinaryIO:
    """Write the body of a request into a file that nobody else sees."""
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    held = bytearray()
    async for part in request.stream():
        held += part
        if len(held) >= _BLOCK:
            await call(file.write, bytes(held))
            held.clear()
    await call(file.write, bytes(held))
    return file


class _Packing:
    """A pack that is written into a temporary file, and read from it at the same time.

    So a slow client does not hold the lease of the knowledge base.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "pack")
        self._written = path.open("wb", buffering=0)
        self._read = path.open("rb")
        out = cast(BinaryIO, self._written)
        self._task: asyncio.Task[PackReport] = asyncio.create_task(kb.handle.pack(out))

    async def begun(self) -> None:
        """Wait for the first bytes.

        Raises:
            LorebindError: it cannot be packed.
        """
        try:
            while not (self._task.done() or self._size):
                await asyncio.wait({self._task}, timeout=_LOOK_SECONDS)
            if self._task.done():
                self._task.result()
        except BaseException:
            await self._end()
            raise

    async def parts(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of the file until it is complete."""
        try:
            while True:
                is_complete = self._task.done()
                while part := await call(self._read.read, _BLOCK):
                    yield part
                if is_complete:
                    self._task.result()
                    return
                await asyncio.wait({self._task}, timeout=_LOOK_SECONDS)
        finally:
            await self._end()

    @property
    def _size(self) -> int:
        return os.fstat(self._written.fileno()).st_size

    async def _end(self) -> None:
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()  # retrieved: `begun` or `parts` has raised it
        self._written.close()
        self._read.close()
        self._folder.cleanup()
