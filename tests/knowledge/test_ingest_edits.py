"""Any sequence of edits gives the same index as a new ingest."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.plumbing import bridge
from lorebind_knowledge.stores.memory import MemoryStore
from tests.density import examples

from .bench import Bench, chunk_counts, counts, paragraph

WORDS = st.sampled_from("abcdefgh")
NAMES = st.sampled_from(["1.md", "2.md", "sub/3.md", "sub/4.md"])


class EditScripts(RuleBasedStateMachine):
    """After any edits, an ingest gives the index of a new one, and embeds only new texts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.bench = self.new("project")
        self.seen: set[str] = set()
        self.ingests = 0

    def new(self, name: str) -> Bench:
        root = Path(self.folder.name) / name
        root.mkdir()
        return Bench(root, lambda: (MemoryStore(), Catalog()))

    def teardown(self) -> None:
        self.bench.catalog.close()
        self.folder.cleanup()

    def there(self, name: str) -> bool:
        return (self.bench.root / "docs" / name).exists()

    @initialize()
    def begin(self) -> None:
        self.bench.write("always.md", paragraph("always"))

    @rule(name=NAMES, words=st.lists(WORDS, max_size=12), heading=st.booleans())
    def write(self, name: str, words: list[str], heading: bool) -> None:
        self.bench.write(name, *(["# Shared"] if heading else []), *map(paragraph, words))

    @rule(name=NAMES, place=st.integers(0, 9), word=WORDS)
    def edit(self, name: str, place: int, word: str) -> None:
        """Change one paragraph of a file that keeps its size and modification time."""
        if self.there(name):
            path = self.bench.root / "docs" / name
            time, paragraphs = path.stat().st_mtime_ns, path.read_text().split("\n\n")
            paragraphs[place % len(paragraphs)] = paragraph(word)
            path.write_text("\n\n".join(paragraphs))
            os.utime(path, ns=(time, time))

    @rule(name=NAMES, word=WORDS)
    def append(self, name: str, word: str) -> None:
        if self.there(name):
            path = self.bench.root / "docs" / name
            path.write_text(path.read_text() + "\n\n" + paragraph(word))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.there(name):
            self.bench.remove(name)

    @rule(old=NAMES, new=NAMES)
    def move(self, old: str, new: str) -> None:
        if self.there(old):
            self.bench.move(old, new)

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if self.there(name):
            os.utime(self.bench.root / "docs" / name, (1, 1))

    @rule(level=st.integers(0, 2))
    def change_metadata(self, level: int) -> None:
        self.bench.change(metadata={"level": level})

    @rule(size=st.sampled_from([64, 100, 200]), overlap=st.sampled_from([0, 30]))
    def change_chunking(self, size: int, overlap: int) -> None:
        self.bench.change(chunker=RecursiveChunker(size, overlap))

    @rule(strategy=st.sampled_from(["upsert", "upsert", "replace"]))
    def ingest(self, strategy: str) -> None:
        bridge.run(self._ingest(strategy))

    async def _ingest(self, strategy: str) -> None:
        bench = self.bench
        self.ingests += 1
        fresh_bench = self.new(f"fresh{self.ingests}")
        shutil.copytree(bench.root / "docs", fresh_bench.root / "docs")
        fresh_bench.change(chunker=bench.corpus.chunker, metadata=bench.corpus.metadata)
        await fresh_bench.ingest()
        needed = set(fresh_bench.embedder.texts)

        bench.embedder.forget()
        planned = await bench.plan()
        assert bench.embedder.batches == []
        report = await bench.ingest(strategy=strategy, allow_mass_delete=True)
        assert report.status == "completed"
        assert planned.texts_to_embed == report.texts_embedded
        if strategy == "upsert":
            assert (planned.documents, planned.chunks) == (report.documents, report.chunks)
            assert planned.cache_hits == report.cache_hits
        assert Counter(bench.embedder.texts) == Counter(needed - self.seen)
        assert report.texts_embedded == len(needed - self.seen)
        self.seen |= needed
        visible = await bench.visible()
        assert visible == await fresh_bench.visible()
        assert report.chunks["total"] == len(visible)
        again = await bench.ingest()
        assert again.documents == counts(
            unchanged=sum(report.documents.values()) - report.documents["removed"]
        )
        assert again.chunks == chunk_counts(unchanged=len(visible), total=len(visible))
        assert (again.texts_embedded, again.cache_hits) == (0, 0)
        fresh_bench.catalog.close()


EditScripts.TestCase.settings = settings(
    max_examples=examples(30),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestEditScripts = EditScripts.TestCase
