"""Leases: a knowledge base has one writer at a time, and an interrupted one is replaced."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebind_config.errors import IngestRefusedError, LeaseLostError, StoreError
from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import Lease

from .test_catalog import ELSEWHERE, HERE


def test_one_ingest_at_a_time(catalog: Catalog) -> None:
    """A second holder is refused, other knowledge bases are not, and the lease is released."""
    with catalog.lease(HERE) as first:
        with pytest.raises(IngestRefusedError, match="'docs' is under way"), catalog.lease(HERE):
            pass
        with catalog.lease(ELSEWHERE):
            pass
    with pytest.raises(ZeroDivisionError), catalog.lease(HERE):
        _ = 1 / 0
    with catalog.lease(HERE) as last:
        assert last.number > first.number


def test_a_lock_that_cannot_be(path: Path) -> None:
    """If the lock file cannot be created, the error names it."""
    (path.parent / f"{path.name}.{leases.lease_name(HERE)}.lock").mkdir(parents=True)
    with (
        contextlib.closing(Catalog(path)) as catalog,
        pytest.raises(StoreError, match=r"cannot lock .*lock"),
        catalog.lease(HERE),
    ):
        pass


# A suspended or interrupted holder.


@contextlib.contextmanager
def stopped(catalog: Catalog) -> Iterator[Lease]:
    """Return an expired lease whose holder has not noticed yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "SECONDS", 0.001)
        patch.setattr(leases, "_RENEWALS", 1e-6)
        taking = catalog.lease(HERE)
        lease = taking.__enter__()
        time.sleep(0.01)
    try:
        yield lease
    finally:
        taking.__exit__(None, None, None)


def test_stopped_and_not_missed(catalog: Catalog) -> None:
    """A suspended holder continues if no other process has taken over in the meantime."""
    with stopped(catalog) as lease:
        catalog.ledger.start_run(lease, "upsert")


@pytest.mark.parametrize(("seconds", "is_free"), [(-1, True), (20, False), (7200, True)])
def test_a_clock_that_was_set_back(catalog: Catalog, seconds: float, is_free: bool) -> None:
    """The database's clock was set back: a lease that ends too late is free if its holder died."""
    with catalog.lease(HERE):
        pass
    with catalog._database.writing() as sql:
        dead = f"update catalog_leases set locked = false, expires = {sql.now} + :seconds"
        sql.run(dead, seconds=seconds)
    refused = contextlib.nullcontext() if is_free else pytest.raises(IngestRefusedError)
    with refused, catalog.lease(HERE):
        pass


def test_only_runs_without_a_lease_have_failed(catalog: Catalog) -> None:
    """A run that starts closes the unfinished runs of its knowledge base only."""
    ledger = catalog.ledger

    def statuses(namespace: Namespace = HERE) -> list[object]:
        return [run.status for run in catalog.runs.list(namespace, 9)]

    with catalog.lease(ELSEWHERE) as other, stopped(catalog) as old:
        ledger.start_run(other, "upsert")
        ledger.start_run(old, "upsert")
        with catalog.lease(HERE) as new:
            ledger.start_run(new, "upsert")
            assert statuses() == ["running", "failed"]
            with pytest.raises(LeaseLostError):
                ledger.start_run(old, "upsert")
            assert statuses() == ["running", "failed"]
        assert statuses(ELSEWHERE) == ["running"]
