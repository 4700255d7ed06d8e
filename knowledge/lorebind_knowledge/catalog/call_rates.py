"""The limits that all processes together keep when they call an embedder, in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.database.databases import Database


class CallRates:
    """The turns of all callers of each embedder. Each method is one short transaction.

    Times are those of the database, because the clocks of machines differ.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, key: str, per_second: float, burst: float) -> float:
        """Take the next turn, and return the seconds until it comes.

        Turns are `1 / per_second` apart, except that `burst` calls may begin at the same time after
        a pause. This is GCRA, the generic cell rate algorithm: it stores one time only, so that one
        statement takes a turn.
        """
        with self._database.writing() as sql:
            # Nothing is lost if a crash forgets turns, so no caller waits for the disk.
            sql.commit_without_waiting()
            # A pause saves up no turns beyond the burst: the next one counts from now at the
            # earliest.
            ((wait,),) = sql.run(
                "insert into catalog_call_rates as r (key, due, held_until)"
                f" values (:key, {sql.now} + :step, 0) on conflict (key) do update"
                f" set due = greatest(r.due, {sql.now}, r.held_until) + :step"
                f" returning greatest(r.due - :burst - {sql.now}, r.held_until - {sql.now}, 0)",
                key=key,
                step=1 / per_second,
                burst=burst / per_second,
            )
        return float(wait)

    def give_back(self, key: str, per_second: float) -> None:
        """Return a turn that is not used."""
        with self._database.writing() as sql:
            sql.commit_without_waiting()
            sql.run(
                "update catalog_call_rates set due = due - :step where key = :key",
                key=key,
                step=1 / per_second,
            )

    def hold_back(self, key: str, seconds: float) -> None:
        """Let no call of any process begin for some seconds."""
        with self._database.writing() as sql:
            # A shorter wait never ends a longer one that another process was asked for.
            sql.run(
                "insert into catalog_call_rates as r (key, due, held_until)"
                f" values (:key, 0, {sql.now} + :seconds) on conflict (key) do update"
                " set held_until = greatest(r.held_until, excluded.held_until)",
                key=key,
                seconds=seconds,
            )

    def held_back(self, key: str) -> float:
        """Return the seconds for which no call may begin."""
        with self._database.reading() as sql:
            query = f"select held_until - {sql.now} from catalog_call_rates where key = :key"
            rows = sql.run(query, key=key)
        return max(0.0, float(rows[0][0])) if rows else 0.0

    def can_be_stored(self) -> bool:
        """Return whether the catalog exists; asking for a turn must not create it."""
        with self._database.reading() as sql:
            return sql.is_postgres
