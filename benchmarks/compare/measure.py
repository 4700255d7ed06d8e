"""The six tasks, each measured for one peer: a mapping of figures that JSON can hold."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from math import log2
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from programs import TASKS, Workplace, lines_of_code, sources

QUESTION = "How do I allow cross-origin requests?"
EDITED = "tutorial/path-params.md"
OLD, NEW = "Several of these are explored", "Seventeen of these are explored"
DELETED, DELETED_WORD = "how-to/graphql.md", "Strawberry"
ADDED = "# Parcels\n\nA parcel with a zebra on it can be sent back within forty-one days.\n"
ASKED_OF_CHANGES = (
    "Which GraphQL library should I use?",
    "How long can a parcel with a zebra be sent back?",
)
TOP_K = 10


class Typo(NamedTuple):
    """A setting whose name is misspelt in a file of a peer."""

    setting: str
    file: str
    right: str
    wrong: str


class Bench:
    """One peer, measured in temporary folders."""

    def __init__(self, peer: str, python: Path, vectors: Path, rounds: int) -> None:
        self._peer, self._python, self._vectors, self._rounds = peer, python, vectors, rounds
        self._scratch = TemporaryDirectory()
        self._workplaces = 0

    def _workplace(self, name: str = "") -> Workplace:
        """A new workplace, in place of an earlier one of the same name."""
        self._workplaces += 1
        folder = Path(self._scratch.name).resolve() / (name or f"run-{self._workplaces}")
        shutil.rmtree(folder, ignore_errors=True)
        return Workplace(self._peer, self._python, folder, self._vectors)

    def ask(self) -> dict[str, Any]:
        """Index the pages and answer, then answer in a new process."""
        # From now on all vectors are known. LlamaIndex embeds the path of a page with its text, so
        # that the folder has to be the same.
        self._workplace("ask").succeed("ask.py", QUESTION)
        first, second = [], []
        for _ in range(self._rounds):
            at = self._workplace("ask")
            first.append(at.succeed("ask.py", QUESTION, paced=True))
            second.append(at.succeed("ask.py", QUESTION, paced=True))
        cited = citations(first[0].output)
        return {
            **self._lines("ask"),
            "texts": first[0].texts,
            "seconds": min(ran.seconds for ran in first),
            "own processor seconds": min(ran.own_cpu for ran in first),
            "second run: texts": second[0].texts,
            "second run: seconds": min(ran.seconds for ran in second),
            "second run: own processor seconds": min(ran.own_cpu for ran in second),
            "cited": [place for place, _ in cited],
            "cited lines hold the passage": bool(cited)
            and all(holds(at.folder, place, text) for place, text in cited),
            "lines of messages": len(first[0].errors.splitlines()),
            "hosts": at.hosts(),
        }

    def changes(self) -> dict[str, Any]:
        """Edit one page, delete one and add one."""
        at = self._workplace()
        program = at.sync_program()
        at.succeed(program, QUESTION)
        before = Counter(at.passages())
        page = at.docs / EDITED
        text = page.read_text(encoding="utf-8")
        assert text.count(OLD) == 1
        page.write_text(text.replace(OLD, NEW), encoding="utf-8")
        (at.docs / DELETED).unlink()
        (at.docs / "parcels.md").write_text(ADDED, encoding="utf-8")
        changed = at.succeed(program, *ASKED_OF_CHANGES)
        after, pages = Counter(at.passages()), self._pages(at)
        return {
            **self._lines(Path(program).stem),
            "texts": changed.texts,
            "new passages": (after - before).total(),
            "passages": after.total(),
            "passages of no page": sum(not pages_with(text, pages) for text in after),
            "deleted text is in the index": any(DELETED_WORD in text for text in after),
            "deleted text is found": DELETED_WORD in changed.output,
            "added text is found": "zebra" in changed.output,
            "nothing changed: texts": at.succeed(program).texts,
        }

    def killed(self) -> dict[str, Any]:
        """Kill a first run half-way, and run again; then kill an update of all pages half-way."""
        at = self._workplace()
        program = at.sync_program()
        total = at.succeed(program).texts
        reference = Counter(at.passages())

        cut = self._workplace()
        half = cut.run(program, kill_after=total // 2)
        assert half.exit_code < 0, half.errors
        pages = self._pages(cut)
        partly = whole = 0
        between = set(cut.passages())
        for texts in passages_of(reference, pages).values():
            whole += texts <= between
            partly += bool(texts & between) and not texts <= between
        again = cut.succeed(program)
        final = Counter(cut.passages())

        old_pages = self._pages(at)
        for page in at.docs.rglob("*.md"):
            text = page.read_text(encoding="utf-8")
            page.write_text(text.replace(" the ", " the very "), encoding="utf-8")
        new_pages = self._pages(at)
        update = at.run(program, kill_after=total // 2)
        assert update.exit_code < 0, update.errors
        served = set(at.passages())
        at.succeed(program)
        old = passages_of(reference, old_pages)
        new = passages_of(at.passages(), new_pages)
        return {
            "texts of an undisturbed run": total,
            "texts before the kill": half.texts,
            "texts of the next run": again.texts,
            "texts embedded again": half.texts + again.texts - total,
            "in between: pages whole": whole,
            "in between: pages in part": partly,
            "passages twice": (final - reference).total(),
            "passages missing": (reference - final).total(),
            "update: pages": len(old),
            "update: pages whole in neither version": sum(
                not (texts <= served or new.get(page, {""}) <= served)
                for page, texts in old.items()
            ),
            "update: pages in both versions": sum(
                bool((texts - new[page]) & served and (new[page] - texts) & served)
                for page, texts in old.items()
                if page in new
            ),
        }

    def typos(self) -> dict[str, Any]:
        """Misspell the name of a setting, one at a time."""
        at = self._small()
        right = at.succeed("agents.py", QUESTION)
        results: dict[str, Any] = {}
        typos = json.loads((TASKS / "typos.json").read_text(encoding="utf-8"))
        for typo in (Typo(*parts) for parts in typos[self._peer]):
            at = self._small()
            file = at.folder / typo.file
            text = file.read_text(encoding="utf-8")
            assert typo.right in text, typo
            file.write_text(text.replace(typo.right, typo.wrong), encoding="utf-8")
            ran = at.run("agents.py", QUESTION)
            results[typo.setting] = {
                "written": typo.wrong,
                "exit code": ran.exit_code,
                "message": self._plain(ran.errors, at) if ran.exit_code else "",
                "traceback": "Traceback (most recent call last)" in ran.errors,
                "same result": ran.output == right.output and ran.texts == right.texts,
                "texts": [right.texts, ran.texts],
                "results": [right.output.count("\n"), ran.output.count("\n")],
            }
        return results

    def agents(self) -> dict[str, Any]:
        """Two agents with different limits."""
        at = self._small()
        ran = at.succeed("agents.py", QUESTION)
        more = self._lines("agents")
        return {**more, "texts": ran.texts, "output": ran.output.splitlines()}

    def search(self, collection: Path) -> dict[str, Any]:
        """Rank the documents of a test collection for its questions."""
        at = self._workplace()
        files = [(collection / name).resolve() for name in ("corpus.jsonl", "queries.jsonl")]
        ran = at.succeed("search.py", *files)
        rankings = dict(json.loads(line) for line in ran.output.splitlines() if line[:1] == "[")
        judged = relevant(collection / "qrels.tsv")
        scores = [ndcg(rankings[query], documents) for query, documents in judged.items()]
        return {
            **self._lines("search"),
            "collection": collection.name,
            "questions": len(scores),
            "nDCG@10": sum(scores) / len(scores),
        }

    def _small(self) -> Workplace:
        """A workplace with few pages, for tasks that do not depend on their number."""
        at = self._workplace()
        for page in (at.docs / "tutorial").rglob("*.md"):
            if page.name != "cors.md":
                page.unlink()
        return at

    def _lines(self, task: str) -> dict[str, int]:
        lines, imported = lines_of_code(*sources(self._peer, task))
        return {"lines": lines, "lines of imports": imported}

    @staticmethod
    def _pages(at: Workplace) -> dict[str, str]:
        files = sorted(at.docs.rglob("*.md"))
        return {str(file): squeezed(file.read_text(encoding="utf-8")) for file in files}

    @staticmethod
    def _plain(errors: str, at: Workplace) -> str:
        """Return the last lines of a program, without the folders of this machine."""
        lines = [line for line in errors.splitlines() if line.strip()]
        starts = [n for n, line in enumerate(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)]
        message = "\n".join(lines[starts[-1] if starts else -1 :])
        return message.replace(f"{at.folder}/", "")


TASK_NAMES: tuple[str, ...] = ("ask", "changes", "killed", "typos", "agents", "search")


def run_task(bench: Bench, task: str, collection: Path | None) -> dict[str, Any] | None:
    """Measure one task; None when it needs a collection and there is none."""
    if task == "search":
        return bench.search(collection) if collection else None
    measured: Callable[[], dict[str, Any]] = getattr(bench, task)
    return measured()


def citations(output: str) -> list[tuple[str, str]]:
    """The place and the text of each passage that a program printed."""
    parts = re.split(r"^\[\d+\] ?(.*)$", output, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def holds(folder: Path, place: str, text: str) -> bool:
    """Whether the cited lines of a file have the passage, and are no more than it needs."""
    match = re.fullmatch(r"(.+):(\d+)-(\d+)", place)
    if not match:
        return False
    lines = (folder / match[1]).read_text(encoding="utf-8").splitlines()
    cited = lines[int(match[2]) - 1 : int(match[3])]
    return squeezed(text) in squeezed("\n".join(cited)) and len(cited) <= text.count("\n") + 1


def squeezed(text: str) -> str:
    """The text with one space for each run of white space."""
    return " ".join(text.split())


def pages_with(passage: str, pages: dict[str, str]) -> list[str]:
    """The pages that have the passage."""
    text = squeezed(passage)
    return [page for page, whole in pages.items() if text in whole]


def passages_of(passages: Iterable[str], pages: dict[str, str]) -> dict[str, set[str]]:
    """The passages of each page, without those that several pages have."""
    result: dict[str, set[str]] = {}
    for passage in passages:
        match pages_with(passage, pages):
            case [page]:
                result.setdefault(page, set()).add(passage)
    return result


def relevant(qrels: Path) -> dict[str, set[str]]:
    """The relevant documents of each question: those with a grade above 0."""
    result: dict[str, set[str]] = {}
    for line in qrels.read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split()
        if int(grade) > 0:
            result.setdefault(query, set()).add(document)
    return result


def ndcg(ranking: list[str], documents: set[str]) -> float:
    """nDCG@10 with binary relevance; a document counts where it is first."""
    ranks = [document in documents for document in list(dict.fromkeys(ranking))[:TOP_K]]
    gain = sum(hit / log2(rank + 2) for rank, hit in enumerate(ranks))
    return gain / sum(1 / log2(rank + 2) for rank in range(min(len(documents), TOP_K)))
