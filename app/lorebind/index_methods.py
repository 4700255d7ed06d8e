"""The methods of `KnowledgeBase` that carry its index away, bring one in, and go back to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from pathlib import Path

    from lorebind_knowledge.handle import KnowledgeHandle
    from lorebind_knowledge.ingest.rollback import RollbackReport
    from lorebind_knowledge.packing.report import PackReport, UnpackReport


class IndexMethods:
    """The methods of `KnowledgeBase` for its index as a whole."""

    handle: KnowledgeHandle

    async def apack(self, path: str | Path) -> PackReport:
        """Write everything that searches find, with its vectors, into one file.

        `unpack` brings it into any project, tenant and vector database. The file has no secret. It
        replaces an existing file only when it is complete.

        Args:
            path: the file, by convention `NAME.lorebind`.

        Raises:
            UsageError: the file cannot be written.
            NotIngestedError: nothing has been ingested yet.
            IngestRunningError: an ingest of the knowledge base is running.
            StoreError: an outage, or the vector database has lost vectors.
        """
        from lorebind_knowledge.packing.archive import new_file  # few use it

        with new_file(path) as out:
            return await self.handle.pack(out)

    async def aunpack(
        self, path: str | Path, *, wait: bool = False, run_id: str | None = None
    ) -> UnpackReport:
        """Replace the index by the one of a pack.

        No text is embedded if the knowledge base has the embedder of the pack; otherwise, all texts
        are. The declaration stays as it is, and `differences` of the report lists where the pack's
        differs. Searches use the old index until the new one is complete.

        Args:
            path: a file that `pack` has written.
            wait: as for `ingest`.
            run_id: as for `ingest`.

        Raises:
            UsageError: the file is no pack, is incomplete or was altered; nothing was changed.
            LorebindError: as for `ingest`; nothing was changed.
        """
        return await self.handle.unpack(path, wait=wait, run_id=run_id)

    async def arollback(self, index: int | None = None) -> RollbackReport:
        """Search an earlier index again, such as the one before the last `reindex`.

        `keep` of the knowledge base says how many earlier indexes there are, and `stats` lists
        them. The current index stays as an earlier one. The next ingest updates the index that is
        searched then; `plan` says what it would do.

        Args:
            index: the number of the index; None means the newest one before the current one.

        Raises:
            UsageError: there is no such index.
            IndexMismatchError: it was built with another embedder than the declared one.
            IngestRunningError: an ingest of the knowledge base is running.
        """
        from lorebind_knowledge.ingest.rollback import rollback

        return await rollback(self.handle.kb, index)

    pack = sync(apack)
    unpack = sync(aunpack)
    rollback = sync(arollback)
