"""The tool of the other tests here: the same cases every time, and none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trials import Case, Trials


def test_a_case_is_the_same_whenever_it_is_tried(tmp_path: Path) -> None:
    """The content of a case depends on its number only."""
    seen: list[float] = []

    def check(case: Case) -> None:
        seen.append(case.random())

    for _ in range(2):
        Trials(full=False, folder=tmp_path).run("numbers", check, short=3, full=9)
    assert seen[:3] == seen[3:]
    assert len(set(seen)) == 3


def test_a_full_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """A resumed run repeats the failed cases, which are named, but not those that passed."""
    tried: list[float] = []
    broken = True

    def check(case: Case) -> None:
        tried.append(case.random())
        assert not (broken and len(tried) == 4)

    trials = Trials(full=True, folder=tmp_path / "kept")
    with pytest.raises(pytest.fail.Exception, match=r"9 cases tried, 1 failed: \[3\]"):
        trials.run("a claim", check, short=2, full=9)
    broken = False
    trials.run("a claim", check, short=2, full=9)
    assert tried[9:] == [tried[3]]
    assert trials.figures[-1] == "a claim: 9 cases tried (8 of them before), 0 failed"
