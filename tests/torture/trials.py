"""Claims that are tried on many seeded cases: a few in every test run, all of them on demand."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROPERTY = "torture"
"""The name of the property of a test report that has the numbers for the summary."""

_SHOWN = 5
"""Number of failures that are shown in full."""


class Case(random.Random):
    """The random numbers that one case is made from."""

    def __init__(self, claim: str, number: int) -> None:
        super().__init__(f"{claim} {number}")
        self.number = number
        """Counted from 0, for claims whose cases are listed instead of random."""


@dataclass
class Trials:
    """Runs a check on numbered cases. The same number is always the same case."""

    full: bool
    """Whether all cases are run, or only the first few."""
    folder: Path
    """Folder with the numbers of the cases that passed, so that a run can be resumed."""
    figures: list[str] = field(default_factory=list)

    def run(self, claim: str, check: Callable[[Case], object], *, short: int, full: int) -> None:
        """Try a claim on `short` cases, or `full` ones in `make torture`, from random numbers."""
        assert short > 0, "a claim that no test run tries is no claim"
        passed = self._passed(claim)
        failed: dict[int, str] = {}
        numbers = [number for number in range(full if self.full else short) if number not in passed]
        for number in numbers:
            try:
                check(Case(claim, number))
            except Exception:
                failed[number] = traceback.format_exc()
            else:
                self._keep(claim, number)
        before = f" ({len(passed)} of them before)" if passed else ""
        tried = len(numbers) + len(passed)
        self.figures.append(f"{claim}: {tried} cases tried{before}, {len(failed)} failed")
        if failed:
            traces = "\n".join(
                f"case {number}:\n{trace}" for number, trace in list(failed.items())[:_SHOWN]
            )
            pytest.fail(f"{self.figures[-1]}: {sorted(failed)}\n{traces}", pytrace=False)

    def _file(self, claim: str) -> Path:
        return self.folder / f"{claim.replace(' ', '-')}.txt"

    def _passed(self, claim: str) -> set[int]:
        if not self.full or not self._file(claim).exists():
            return set()
        return {int(line) for line in self._file(claim).read_text().split()}

    def _keep(self, claim: str, number: int) -> None:
        if self.full:
            self.folder.mkdir(exist_ok=True)
            with self._file(claim).open("a") as file:
                file.write(f"{number}\n")
