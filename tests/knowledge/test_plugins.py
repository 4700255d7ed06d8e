"""Plugins: installed distributions whose kinds a project can select in its YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from scripts.docs import yaml_reference as reference

from lorebind_config import plugins
from lorebind_config.declarations.schema import json_schema
from lorebind_config.errors import (
    ConfigurationError,
    EmbedderError,
    PluginError,
    SourceError,
    StoreError,
)
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_config.reading.loading import build_project, load_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.loaders import formats, registry
from lorebind_knowledge.loaders.registry import load_document, loaders_version
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Partition
from lorebind_knowledge.sources.folder.files import FileSource
from tests.plugin_project.installing import ACME_OFFERS, install, install_acme
from tests.processes import run_program

PROJECT = """\
name: shop
embedders:
  - { id: threes, provider: acme, api_key: "{{ .env.ACME_KEY }}", config: { dimension: 128 } }
vector_dbs:
  - { id: cloud, type: acme }
knowledge_bases:
  - id: docs
    embedder: threes
    vector_db: cloud
    sources:
      - { type: acme_wiki, file: "{{ .env.WIKI }}.json" }
      - { type: file_glob, path: "*.acme" }
    chunking: { strategy: acme, mark: ";" }
    preprocess: { steps: [{ type: acme, words: [" in June"] }] }
    retrieval:
      strategy: rerank
      rerank: { provider: acme, candidates: 20 }
      top_k: 2
models:
  - { id: default, provider: extractive, tokenizer: { provider: acme } }
extensions:
  - { provider: acme, file: audit.log }
"""
ENVIRON = {"ACME_KEY": "the-key-of-acme", "WIKI": "wiki"}
PAGES = {"keys": "Keys are rotated each month;", "bills": "Bills are sent by mail;"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path into which distributions can be installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    plugins.forget()
    yield folder
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]
    plugins.forget()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project folder whose file selects a plugin in every place."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "lorebind.yaml").write_text(PROJECT, encoding="utf-8")
    (folder / "wiki.json").write_text(json.dumps(PAGES), encoding="utf-8")
    (folder / "memo.acme").write_text("THE PLAN\nWe open a shop in June;", encoding="utf-8")
    return folder


def problems(root: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_project(root, environ=ENVIRON)
    return [str(problem) for problem in caught.value.problems]


def embedding(provider: str, **more: Any) -> dict[str, Any]:
    """Create a project with one embedder."""
    return {"name": "p", "embedders": [{"id": "e", "provider": provider, **more}]}


def run(code: str, site: Path, cwd: Path) -> str:
    """Run code in a fresh interpreter with the folder as installed packages; return its output."""
    environ = {**ENVIRON, "PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    done = run_program([sys.executable, "-W", "error", "-c", code], cwd=cwd, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_project_made_of_plugins_is_ingested_searched_and_cited(site: Path, root: Path) -> None:
    """A project of installed plugins of all kinds works in a process that knows only the YAML."""
    install_acme(site)
    code = """
import json
from lorebind import Project
with Project.load() as project:
    report = project.ingest("docs")
    hits = project.query("docs", "when are keys rotated")
    answer = project.ask("When are keys rotated each month?")
    print(json.dumps({
        "status": report.status,
        "documents": report.documents,
        "found": [(match.metadata["uri"], match.text, match.scores["rerank"]) for match in hits],
        "memo": [match.metadata["title"] for match in project.query("docs", "open a shop")][0],
        "memo_text": [match.text for match in project.query("docs", "open a shop")][0],
        "cited": [citation.uri for citation in answer.citations],
        "counter": project._models.get()[1].count("three words here"),
        "doctor": [[row.part, row.status, row.detail] for row in project.doctor()],
    }))
"""
    done = json.loads(run(code, site, root))
    assert done["status"] == "completed"
    assert done["documents"]["added"] == 3
    assert done["found"][0][:2] == ["keys", "Keys are rotated each month;"]
    assert done["found"][0][2] == pytest.approx(0.75)
    assert done["memo"] == "The Plan"
    assert "a shop[removed];" in done["memo_text"]
    assert "keys" in done["cited"]
    assert done["counter"] == 3
    assert (root / "audit.log").read_text().startswith("docs 2\n")
    groups = ("embedders", "vector_dbs", "document_transforms", "chunkers", "rerankers")
    for group in (*groups, "tokenizers", "extensions"):
        assert [f"plugin acme of lorebind.{group}", "ok", "acme-lore 1.0"] in done["doctor"]
    assert ["plugins acme of lorebind.loaders", "ok", "all are usable"] in done["doctor"]


def test_schema_and_reference_describe_the_plugins(site: Path) -> None:
    """A plugin's keys are validated and described like those of Lorebind."""
    install_acme(site)
    schema = json_schema("project")
    Draft202012Validator.check_schema(schema)
    data = {"name": "p", "embedders": [{"id": "e", "provider": "acme", "config": {"dimension": 8}}]}
    validator = Draft202012Validator(schema)
    assert validator.is_valid(data)
    data["embedders"][0]["config"]["dimension"] = 7  # type: ignore[index]
    assert not validator.is_valid(data)
    page = reference.reference_page()
    assert "`embedders[].config` with `provider: acme`" in page
    assert "`knowledge_bases[].chunking` with `strategy: acme`" in page
    assert "Sent with every call." in page


def test_mistakes_in_what_a_plugin_declares_have_their_place(site: Path, root: Path) -> None:
    """Mistakes have file, line, column and near matches; plugins are among the known kinds."""
    install_acme(site)
    text = PROJECT.replace("dimension: 128", "dimension: 4, dims: 3")
    text = text.replace("type: acme }", "type: acmee }")
    text = text.replace("type: acme_wiki, file", "type: acme_wiki, fil")
    text = text.replace("strategy: acme", "strategy: acmi")
    text = text.replace("rerank: { provider: acme", "rerank: { provider: acne")
    (root / "lorebind.yaml").write_text(text, encoding="utf-8")
    lines = problems(root)
    assert lines.pop().startswith(
        "lorebind.yaml:17:17: reranker provider 'acne' is not supported; did you mean 'acme'; "
        "known: acme, fastembed, langchain, onnx"
    )
    assert lines == [
        "lorebind.yaml:3:77: dimension is 4; expected 8 to 512",
        "lorebind.yaml:3:91: unknown key 'dims'; did you mean 'dimension'; known: dimension",
        "lorebind.yaml:5:18: vector database type 'acmee' is not supported; did you mean 'acme'; "
        "known: acme, langchain, memory, pgvector, qdrant, sqlite",
        "lorebind.yaml:11:28: unknown key 'fil'; did you mean 'file'; known: file, max_bytes, "
        "max_scan_bytes, metadata, ocr, on_textless_pages, type",
        "lorebind.yaml:13:17: chunking strategy 'acmi' is not supported; did you mean 'acme'; "
        "known: acme, code, fixed, html, json, markdown, recursive_text_splitter, semantic, token",
    ]


def test_literal_secrets_of_plugins_are_refused(site: Path) -> None:
    """A plugin's secret field refuses literals like any other."""
    install_acme(site)
    with pytest.raises(ConfigurationError, match="api_key holds a literal value"):
        build_project(embedding("acme", api_key="sk-123"), root=site)


async def test_what_a_plugin_says_is_said_without_secrets(site: Path) -> None:
    """Exceptions of a plugin's constructor and calls are shown without its secrets."""
    install_acme(site)
    data = embedding("acme", api_key="{{ .env.ACME_KEY }}")
    loaded = build_project(data, root=site, environ={"ACME_KEY": "refused-key"})
    embedder = KnowledgeService(loaded).embedder()
    with pytest.raises(
        EmbedderError, match=r"acme/threes failed: RuntimeError: 401: {{ \.env\.ACME_KEY }}"
    ):
        await embedder.embed_documents(["a"])
    loaded = build_project(data, root=site, environ={"ACME_KEY": "unreachable-key"})
    with pytest.raises(EmbedderError, match=r"'e' cannot be created .* no route to acme with {{"):
        KnowledgeService(loaded).embedder()


def test_a_plugin_that_fails_to_import_is_named_when_it_is_used(site: Path, root: Path) -> None:
    """The message names the distribution; projects that do not select the plugin load as usual."""
    offers = {"embedders": {"broken": "broken_lore:embedder"}, "loaders": {"b": "broken_lore:b"}}
    install(site, "broken-lore", offers, {"broken_lore": "import nothing_like_it"})
    build_project(embedding("hashing"), root=root)
    assert "broken" not in json.dumps(json_schema("project"))
    with pytest.raises(ConfigurationError) as caught:
        build_project(embedding("broken"), root=root)
    (problem,) = caught.value.problems
    assert problem.file == "embedders[0].provider" or "provider" in str(problem)
    assert (
        "plugin 'broken' of lorebind.embedders (broken-lore 1.0) cannot be loaded from "
        "'broken_lore:embedder': ModuleNotFoundError: No module named 'nothing_like_it'"
    ) in str(problem)
    with pytest.raises(SourceError, match=r"no loader for \.odt; .*broken-lore 1\.0\) cannot be"):
        load_document(b"x", "a.odt")
    assert load_document(b"x", "a.txt").text == "x"


MISSHAPEN = {
    "x": ("has no 'Declaration' and no 'make'", "x = object()"),
    "y": (
        "its Declaration is not derived from lorebind_config.declarations.embedders.Emb",
        "class y:\n    Declaration = dict\n    make = None",
    ),
    "z": (
        "its Declaration does not declare provider: Literal['z']",
        "from typing import Literal\n"
        "from lorebind_config.declarations.embedders import EmbedderBase\n"
        "class D(EmbedderBase):\n    provider: Literal['other']\n"
        "class z:\n    Declaration = D\n    make = None",
    ),
}


@pytest.mark.parametrize("word", MISSHAPEN)
def test_a_plugin_of_a_wrong_shape_is_told_what_is_wrong(word: str, site: Path) -> None:
    """A plugin that lacks a member, or declares another word, is refused with its distribution."""
    message, text = MISSHAPEN[word]
    install(site, "odd-lore", {"embedders": {word: f"odd_{word}:{word}"}}, {f"odd_{word}": text})
    with pytest.raises(ConfigurationError) as caught:
        build_project(embedding(word), root=site)
    assert f"{word!r} of lorebind.embedders (odd-lore 1.0)" in str(caught.value)
    assert message in str(caught.value)


STORE_PLUGIN = """\
from typing import Literal
from lorebind_config.declarations.vector_dbs import VectorDBBase
from lorebind_knowledge.stores import MemoryStore

class D(VectorDBBase):
    type: Literal['odd']

{}

class odd:
    Declaration = D
    make = staticmethod(lambda declaration, environment: Odd())
"""


def _with_store(site: Path, odd: str) -> KnowledgeService:
    """Create a project whose vector database is a plugin with this class."""
    text = STORE_PLUGIN.format(odd)
    install(site, "odd-lore", {"vector_dbs": {"odd": "odd_lore:odd"}}, {"odd_lore": text})
    data = {"name": "p", "vector_dbs": [{"id": "v", "type": "odd"}]}
    return KnowledgeService(build_project(data, root=site))


@pytest.mark.parametrize(
    ("odd", "lacking"),
    [
        ("class Odd: pass", "made a Odd without add, nearest, get, delete, count, drop, close, is"),
        (
            "class Odd:\n    add = nearest = get = delete = count = drop = close = None",
            "made a Odd without is_exact, filters, returns_vectors, counts_fast",
        ),
    ],
)
def test_what_a_plugin_makes_is_checked(site: Path, odd: str, lacking: str) -> None:
    """An object without the members of its kind is refused by name when it is created."""
    with pytest.raises(PluginError, match=lacking):
        _with_store(site, odd).index()


async def test_a_plugged_store_that_fails_is_a_store_error(site: Path) -> None:
    """A plugin's own exceptions become a StoreError with the id of the vector database."""
    odd = "class Odd(MemoryStore):\n    def count(self, space): raise OSError('gone')"
    service = _with_store(site, odd)
    space = Partition(IndexKey(Namespace("t", "p", "project", "kb")), 1, 3)
    with pytest.raises(StoreError, match="'v' failed in count: OSError: gone"):
        await call(service.index().store.count, space)
    await service.close()


def test_two_plugins_of_one_name_are_refused(site: Path) -> None:
    """Two plugins with the same name are refused, and both are named."""
    install_acme(site)
    install(site, "other-lore", {"embedders": {"acme": "acme_lore:embedder"}}, version="2.0")
    with pytest.raises(ConfigurationError) as caught:
        build_project(embedding("acme"), root=site)
    message = str(caught.value)
    assert "'acme' of lorebind.embedders is claimed by" in message
    assert "acme-lore 1.0" in message
    assert "other-lore 2.0" in message
    build_project(embedding("hashing"), root=site)


def test_a_plugin_does_not_take_the_place_of_a_built_in(site: Path) -> None:
    """A plugin with a built-in name is refused; `hashing` never silently means another kind."""
    install(site, "grabby", {"embedders": {"hashing": "nowhere:x"}})
    with pytest.raises(ConfigurationError, match="claimed by Lorebind itself and by grabby"):
        build_project(embedding("hashing"), root=site)
    build_project(embedding("local"), root=site)


def test_loaders_may_not_share_an_ending(site: Path) -> None:
    """An extension claimed by two loaders, or built in, is refused with both names."""
    install_acme(site)
    text = "suffixes = ('.acme', '.csv')\nmedia_types = ()\ndef load(data, uri): ..."
    install(site, "greedy", {"loaders": {"greedy": "greedy"}}, {"greedy": text})
    with pytest.raises(SourceError, match=r"'\.acme' is claimed by .*acme-lore.*greedy"):
        load_document(b"A", "a.acme")
    with pytest.raises(SourceError, match=r"'\.csv' is claimed by .*Lorebind itself and .*greedy"):
        load_document(b"a,b", "a.csv")
    assert load_document(b"a,b", "a.md").text == "a,b"


@pytest.mark.parametrize("can_recognize", [True, False])
def test_a_plugin_reads_images_before_ocr(
    site: Path, monkeypatch: pytest.MonkeyPatch, can_recognize: bool
) -> None:
    """Neither the extra `ocr` nor `ocr: never` stops a plugin from reading images."""
    for module in (formats, registry):
        monkeypatch.setattr(module, "can_recognize", lambda: can_recognize)
    text = (
        "from lorebind.plugin import LoadedDocument\n"
        "suffixes = ('.png',)\nmedia_types = ('image/png',)\n"
        "def load(data, uri): return LoadedDocument('a chart', 'Chart')"
    )
    install(site, "charts", {"loaders": {"charts": "charts"}}, {"charts": text})
    assert formats.problems_of_loaders() == []
    for name, media_type in (("a.png", ""), ("a", "image/png")):
        assert load_document(b"\x89PNG\r\n\x1a\n", name, media_type).text == "a chart"
    for name in ("a.png", "a.webp"):
        (site / name).touch()
    source = FileSource("file_glob", ["*.png", "*.webp"], site)
    (report,) = enumerate_sources([source], {source.key}).sources
    assert (report.documents, [item.uri for item in report.skipped]) == (1, ["a.webp"])


def test_pages_of_plugins_have_numbers(site: Path) -> None:
    """A page that has no number fails its document, not what counts pages later."""
    text = (
        "from lorebind_knowledge.loaders.base import Anchor, LoadedDocument\n"
        "suffixes = ('.odt',)\nmedia_types = ()\n"
        "def load(data, uri): return LoadedDocument('a', 'A', anchors=(Anchor(0, 'page', 'iv'),))"
    )
    install(site, "pages", {"loaders": {"pages": "pages_of_odt"}}, {"pages_of_odt": text})
    with pytest.raises(SourceError, match=r"a\.odt: the loader .* a page named 'iv', which is not"):
        load_document(b"x", "a.odt")


def test_a_loader_is_chosen_by_media_type_and_ending(site: Path) -> None:
    """Plugin loaders are selected like built-in ones; adding or removing one rereads documents."""
    before = loaders_version()
    install_acme(site)
    plugins.forget()
    assert load_document(b"TITLE\nx", "a.acme").format == "acme"
    assert load_document(b"TITLE\nx", "a", "application/x-acme").title == "Title"
    assert load_document(b"TITLE\nx", "a.acme", "text/csv").format == "csv"
    assert loaders_version() != before
    with pytest.raises(SourceError, match=r"a\.acme: the loader .* cannot read it: Unicode"):
        load_document(b"\xff\xff\xff", "a.acme")
    with pytest.raises(SourceError, match=r"known: \.acme, .*\.csv"):
        load_document(b"x", "a.unknown")


def test_an_extension_is_only_loaded_where_it_is_named(site: Path, tmp_path: Path) -> None:
    """An installed but undeclared extension is not even imported."""
    install(site, "nosy", {"extensions": {"nosy": "nosy:x"}}, {"nosy": "raise SystemExit(3)"})
    KnowledgeService(build_project({"name": "p"}, root=tmp_path))
    assert "nosy" not in sys.modules


def test_importing_scans_for_nothing(site: Path, tmp_path: Path) -> None:
    """Entry points are read when a project is loaded, and imported when it selects them."""
    install_acme(site)
    code = """
import sys
import lorebind, lorebind_config.plugins as plugins
from lorebind import Project
assert plugins.offers.cache_info().misses == 0
Project.build({"name": "p", "embedders": [{"id": "e", "provider": "hashing"}]}).close()
assert plugins.offers.cache_info().misses >= 1
print("acme_lore" in sys.modules)
"""
    assert run(code, site, tmp_path) == "False\n"


def test_every_group_is_offered_something_here() -> None:
    """This module's plugins cover all groups."""
    from typing import get_args

    assert set(ACME_OFFERS) == set(get_args(plugins.Group))


def test_a_program_may_offer_plugins_of_its_own(site: Path) -> None:
    """A registered plugin is selected like an installed one, and collides in the same way."""
    from tests.plugin_project import acme_lore

    install(site, "x-lore", {"embedders": {"twice": "nowhere:x"}})
    plugins.register("embedders", "acme", acme_lore.embedder)
    plugins.register("embedders", "twice", acme_lore.embedder)
    try:
        loaded = build_project(embedding("acme", config={"dimension": 32}), root=site)
        assert KnowledgeService(loaded).embedder().fingerprint.dimension == 32
        with pytest.raises(ConfigurationError, match="registered by the program and by x-lore"):
            build_project(embedding("twice"), root=site)
    finally:
        plugins.unregister("embedders", "acme")
        plugins.unregister("embedders", "twice")
    with pytest.raises(ConfigurationError, match="provider 'acme' is not supported"):
        build_project(embedding("acme"), root=site)
