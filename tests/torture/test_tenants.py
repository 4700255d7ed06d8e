"""Random operations of tenants and their scopes in one database, compared with a model."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document

from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import NotIngestedError
from lorebind_config.namespace import tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.documents.listing import knowledge_stats
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.planning import plan
from lorebind_knowledge.ingest.reindexing import reindex

from .trials import Trials

OPERATIONS = 19
"""Number of operations per case."""
TENANTS = ("default", "acme", "acme/x")
PROJECTS = ("shop", "shop2")
PLACES = ((None, "one"), (None, "two"), ("flow", "one"))
URIS = ("docs/all.md", "docs/keys.md", "docs/rules.md")
IDS = ("a", "b", "docs/all.md")
STRATEGIES = ("similarity", "lexical", "hybrid", "mmr")
EVERYBODY = "What everybody says of the keys."


class Owner(NamedTuple):
    """The owner of a knowledge base, and its id."""

    tenant: str
    project: str
    workflow: str | None
    kb: str


OWNERS = [
    Owner(who, project, *place)
    for who, project, place in itertools.product(TENANTS, PROJECTS, PLACES)
]


def declared(
    name: str, vector_db: dict[str, Any], folder: Path, environ: dict[str, str]
) -> KnowledgeService:
    """Declare a project with two knowledge bases over the same files, and one in a workflow."""

    def base(kb_id: str) -> dict[str, Any]:
        sources = [{"type": "markdown_glob", "path": "docs/*.md"}]
        return {"id": kb_id, "sources": sources, "preprocess": {"dedupe": False}}

    say = {"id": "say", "prompt": "Say."}
    data = {
        "name": name,
        "embedders": [{"id": "words", "provider": "hashing", "config": {"dimension": 64}}],
        "vector_dbs": [vector_db],
        "knowledge_bases": [base("one"), base("two")],
        "workflows": [{"id": "flow", "knowledge_bases": [base("one")], "tasks": [say]}],
    }
    return KnowledgeService(build_project(data, root=folder, environ=environ))


class World:
    """One database, and the documents of all owners in it."""

    def __init__(
        self,
        case: random.Random,
        folder: Path,
        vector_db: dict[str, Any],
        environ: dict[str, str],
    ) -> None:
        self._case, self._folder = case, folder
        self._services = {name: declared(name, vector_db, folder, environ) for name in PROJECTS}
        self._owners = case.sample(OWNERS, case.randint(2, 5))
        self._indexed: dict[Owner, dict[str, str]] = {}
        self._collected: dict[tuple[str, str], dict[str, str]] = {}
        self._numbers = itertools.count()

    async def run(self) -> None:
        try:
            for _ in range(OPERATIONS):
                owner = self._case.choice(self._owners)
                operations = [self.ingest, self.query, self.query_several, self.stats, self.plan]
                operations += [self.reindex, self.add, self.delete, self.search]
                weights = [4, 4, 1, 2, 2, 1, 2, 1, 2]
                (operation,) = self._case.choices(operations, weights)
                with tenant(owner.tenant):
                    await operation(owner, self._services[owner.project])
            for owner in self._owners:  # check all owners after the operations of the others
                with tenant(owner.tenant):
                    await self.query(owner, self._services[owner.project])
        finally:
            for service in self._services.values():
                await service.close()

    def _text(self, owner: Owner) -> str:
        number = next(self._numbers)
        return self._case.choice(
            [EVERYBODY, f"Secret{number} of {'-'.join(map(str, owner))}, keys."]
        )

    def _write(self, owner: Owner) -> dict[str, str]:
        """Write this owner's files: some are unchanged, some new, some removed."""
        had = self._indexed.get(owner, {})
        uris = self._case.sample(URIS, self._case.randint(1, len(URIS)))
        texts = {
            uri: had[uri] if uri in had and self._case.random() < 0.5 else self._text(owner)
            for uri in uris
        }
        shutil.rmtree(self._folder / "docs", ignore_errors=True)
        (self._folder / "docs").mkdir()
        for uri, text in texts.items():
            (self._folder / uri).write_text(text)
        return texts

    def _changes(self, before: dict[str, str], after: dict[str, str]) -> dict[str, int]:
        both = before.keys() & after.keys()
        updated = sum(before[uri] != after[uri] for uri in both)
        return {
            "added": len(after.keys() - before.keys()),
            "updated": updated,
            "removed": len(before.keys() - after.keys()),
            "unchanged": len(both) - updated,
            "failed": 0,
        }

    async def ingest(self, owner: Owner, service: KnowledgeService) -> None:
        texts = self._write(owner)
        strategy = self._case.choice(["upsert", "upsert", "replace"])
        report = await ingest(
            service.open(owner.kb, owner.workflow).corpus(),
            strategy=strategy,
            allow_mass_delete=True,
        )
        before = self._indexed.get(owner, {}) if strategy == "upsert" else {}
        assert report.documents == self._changes(before, texts)
        self._indexed[owner] = texts

    async def reindex(self, owner: Owner, service: KnowledgeService) -> None:
        had, texts = self._indexed.get(owner, {}), self._write(owner)
        if had.keys() <= texts.keys():  # otherwise the old index stays in use
            await reindex(service.open(owner.kb, owner.workflow).corpus())
            self._indexed[owner] = texts

    async def plan(self, owner: Owner, service: KnowledgeService) -> None:
        texts = self._write(owner)
        planned = await plan(service.open(owner.kb, owner.workflow).corpus(embeds=False))
        assert planned.documents == self._changes(self._indexed.get(owner, {}), texts)

    async def stats(self, owner: Owner, service: KnowledgeService) -> None:
        stats = await service.open(owner.kb, owner.workflow).read(knowledge_stats)
        mine = len(self._indexed.get(owner, ()))
        assert stats.chunks == mine
        assert stats.documents == {"ready": mine, "pending": 0, "failed": 0}

    def _settings(self) -> RetrievalDeclaration:
        strategy = self._case.choice(STRATEGIES)
        uri = {"uri": self._case.choice(URIS)} if self._case.random() < 0.2 else {}
        values = {"strategy": strategy, "top_k": 50, "filters": uri}
        return RetrievalDeclaration.model_validate(values)

    def _question(self) -> str:
        secrets = [text for texts in self._indexed.values() for text in texts.values()]
        return f"{self._case.choice([*secrets, 'secret'])} keys"

    def _expected(self, owner: Owner, settings: RetrievalDeclaration) -> Counter[str]:
        uri = (settings.filters or {}).get("uri")
        mine = self._indexed[owner]
        return Counter(text for name, text in mine.items() if uri in (None, name))

    async def query(self, owner: Owner, service: KnowledgeService) -> None:
        question, settings = self._question(), self._settings()
        if owner not in self._indexed:
            with pytest.raises(NotIngestedError):
                await service.open(owner.kb, owner.workflow).query(question, settings)
            return
        matches = await service.open(owner.kb, owner.workflow).query(question, settings)
        assert Counter(match.text for match in matches) == self._expected(owner, settings)

    async def query_several(self, owner: Owner, service: KnowledgeService) -> None:
        both = [owner._replace(workflow=None, kb=kb) for kb in ("one", "two")]
        if any(owner not in self._indexed for owner in both):
            return
        question, settings = self._question(), self._settings()
        handles = [service.open(owner.kb) for owner in both]
        matches = await service.query_several(handles, question, [settings] * len(handles))
        expected = sum((self._expected(owner, settings) for owner in both), Counter[str]())
        assert {match.text for match in matches} == expected.keys()

    # Documents that are added by calls.

    def _collection(self, owner: Owner, service: KnowledgeService) -> tuple[Any, dict[str, str]]:
        mine = self._collected.setdefault((owner.tenant, owner.project), {})
        return service.collection("one"), mine

    async def add(self, owner: Owner, service: KnowledgeService) -> None:
        collection, mine = self._collection(owner, service)
        added = {name: self._text(owner) for name in self._case.sample(IDS, 2)}
        documents = [Document(text, id=name) for name, text in added.items()]
        await collection.aadd_documents(documents, ids=list(added))
        mine |= added

    async def delete(self, owner: Owner, service: KnowledgeService) -> None:
        collection, mine = self._collection(owner, service)
        names = self._case.sample(IDS, self._case.randint(1, 2))
        await collection.adelete(names)
        for name in names:
            mine.pop(name, None)

    async def search(self, owner: Owner, service: KnowledgeService) -> None:
        collection, mine = self._collection(owner, service)
        documents = await collection.asimilarity_search(self._question(), k=50)
        assert {document.id: document.page_content for document in documents} == mine
        by_id = await collection.aget_by_ids(list(IDS))
        assert {document.id: document.page_content for document in by_id} == mine


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("kind", "short", "full"), [("memory", 6, 110), ("sqlite", 4, 110), ("pgvector", 1, 54)]
)
def test_tenants(
    trials: Trials,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kind: str,
    short: int,
    full: int,
) -> None:
    """Each owner finds, counts and plans with its own data, whatever the others do."""
    configs = {"memory": {}, "sqlite": {"path": "shared.db"}, "pgvector": {"dsn": "{{ .env.DSN }}"}}
    new_dsn = request.getfixturevalue("new_dsn") if kind == "pgvector" else str
    folders = itertools.count()

    def check(case: random.Random) -> None:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        vector_db = {"id": "db", "type": kind, "config": configs[kind]}
        world = World(case, folder, vector_db, {"DSN": new_dsn()})
        asyncio.run(world.run())

    trials.run(f"{OPERATIONS} operations of tenants, {kind}", check, short=short, full=full)
