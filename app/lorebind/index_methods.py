"""The methods of `KnowledgeBase` that carry its index away, bring one in, and go back to one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError
from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from lorebind_knowledge.handle import KnowledgeHandle
    from lorebind_knowledge.ingest.rollback import RollbackReport
    from lorebind_knowledge.packing.pack import PackReport
    from lorebind_knowledge.packing.unpack import UnpackReport

_SECTIONS = ("embedders", "sparse_embedders")
"""The sections of a declaration from which a pack brings what its knowledge base needs."""


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


def declaration_to_add(
    packed: object, kb_id: str, there: Mapping[str, Any], shown_as: str
) -> dict[str, Any]:
    """Return the resources of a pack that a project lacks, as `apply` accepts them.

    The knowledge base gets the project's default vector database.

    Args:
        packed: the declaration in the pack's manifest.
        kb_id: the id that the knowledge base gets.
        there: the resources that the project has, as `export` returns them.
        shown_as: the pack, in messages.

    Raises:
        ConfigurationError: the declaration is not valid.
        UsageError: it would run code, send variables, or read files outside of the project.
    """
    # Few unpack into a project that declares nothing; reading takes long to import.
    from lorebind_config.reading.loading import build_project
    from lorebind_config.trust import demands_of

    resources = packed if isinstance(packed, Mapping) else {}
    declared = resources.get("knowledge_bases")
    if not (isinstance(declared, list) and len(declared) == 1 and isinstance(declared[0], Mapping)):
        raise UsageError(f"{shown_as}: declares no knowledge base; declare {kb_id!r} yourself")
    kb = {key: value for key, value in declared[0].items() if key != "vector_db"} | {"id": kb_id}
    sections = {name: resources[name] for name in _SECTIONS if resources.get(name)}
    with tempfile.TemporaryDirectory() as root:
        data = {"name": "packed", **sections, "knowledge_bases": [kb]}
        demands = demands_of(build_project(data, root=Path(root))).all
    if needed := [demand for demand in demands if not demand.stays]:
        wants = "; ".join(f"{demand.by} wants to {demand.wants} {demand.what}" for demand in needed)
        raise UsageError(
            f"{shown_as}: its declaration needs trust: {wants}; declare {kb_id!r} in lorebind.yaml "
            "yourself, then unpack again"
        )
    missing = {
        name: [item for item in items if item.get("id") not in _ids(there, name)]
        for name, items in sections.items()
    }
    return {name: items for name, items in missing.items() if items} | {"knowledge_bases": [kb]}


def _ids(resources: Mapping[str, Any], section: str) -> set[str]:
    return {item["id"] for item in resources.get(section, [])}
