"""Storage of one machine beside a catalog in PostgreSQL, which several machines may share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.reading.loaded import LoadedProject


def unshared_storage(loaded: LoadedProject) -> Iterator[tuple[str, str]]:
    """Yield what other machines with the same catalog do not share, each with a suggested fix."""
    project = loaded.project
    shared = [
        vector_db.id
        for vector_db in project.vector_dbs_or_default
        if (catalog := vector_db.catalog_place) is not None and catalog.dsn is not None
    ]
    if not shared:
        return
    why = (
        f"on this machine only, although vector database {shared[0]!r} has its catalog in "
        "PostgreSQL; other machines have their own {what}; to share them, declare {how}"
    )
    state = project.server.state
    if state is None or state.dsn is None:
        how = "server: { state: { dsn: … } }"
        yield "server state", why.format(what="tokens, runs and knowledge bases", how=how)
    kept = {workflow.id: loaded.checkpointer(workflow) for workflow in loaded.workflows.values()}
    local = [repr(name) for name, checkpointer in kept.items() if checkpointer.type != "postgres"]
    if local:
        how = "checkpointer: { type: postgres, dsn: … }"
        what = f"threads of {', '.join(local)}"
        yield "threads", why.format(what=what, how=how)
