"""Embedders and rerankers that fastembed runs, with small graphs from a local hub."""

from __future__ import annotations

import asyncio
import io
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind_config.declarations.kinds import REGISTRIES
from lorebind_config.errors import (
    ConfigurationError,
    EmbedderError,
    MissingDependencyError,
    RerankerError,
)
from lorebind_config.reading.loading import build_project
from lorebind_config.templates import Environment
from lorebind_knowledge.embedders.base import Embedder, embed_documents, embed_query
from lorebind_knowledge.embedders.fastembed import prefixes_of
from lorebind_knowledge.embedders.wrapper import make_embedder
from lorebind_knowledge.hub_models import snapshot
from lorebind_knowledge.hub_models.settings import models_folder
from lorebind_knowledge.hub_models.snapshot import (
    NotDownloadedError,
    megabytes,
    show_on,
    without_downloads,
)
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.rerankers.base import Reranker, make_reranker, rerank_texts

from . import onnx_models
from .hub_server import (
    EMBEDDER,
    EMBEDDER_REPOSITORY,
    MULTILINGUAL,
    OWN,
    RERANKER,
    HubServer,
    embedder_files,
)

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

GRAPH = "model_optimized.onnx"


def embedder(root: Path, model: str = EMBEDDER, **settings: Any) -> Embedder:
    """Return an embedder as after a restart; its models are in the folder `models`."""
    written = {"id": "e", "provider": "fastembed", "model": model, "cache_dir": "models"}
    declared = REGISTRIES["embedders"].read(written | settings)
    return make_embedder(declared, Environment(root, {}))


def reranker(root: Path, model: str = RERANKER, **settings: Any) -> Reranker:
    written = {"provider": "fastembed", "model": model, "cache_dir": "models"}
    declared = REGISTRIES["rerankers"].read(written | settings)
    return make_reranker(declared, Environment(root, {}))


EMBED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.knowledge.test_fastembed import embedder
asyncio.run(embedder(Path(sys.argv[2])).embed_query("keys"))
"""


def embedding_process(root: Path) -> subprocess.Popen[bytes]:
    """Embed a question in a separate process."""
    tests = __file__.rpartition("/tests/")[0]
    command = [sys.executable, "-c", EMBED, tests, str(root)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


# Embedding.


async def test_only_what_fastembed_reads_is_downloaded(hub: HubServer, tmp_path: Path) -> None:
    """Nothing is downloaded at creation, five files at the first use, none at the second."""
    model = embedder(tmp_path)
    assert not hub.requests
    await embed_query(model, "keys")
    await embed_query(embedder(tmp_path), "keys")
    assert sorted(hub.downloads()) == [
        *("config.json", GRAPH, "special_tokens_map.json", "tokenizer.json"),
        "tokenizer_config.json",
    ]


async def test_words_before_questions_and_passages(hub: HubServer, tmp_path: Path) -> None:
    """Prefixes are those of the model's training unless others, or none, are declared."""
    usual = embedder(tmp_path, MULTILINGUAL)
    plain = embedder(tmp_path, MULTILINGUAL, query_prefix="", document_prefix="")
    other = embedder(tmp_path, MULTILINGUAL, query_prefix="passage: ")
    for text in ("query: keys", "passage: keys"):
        assert np.allclose(await embed_query(plain, text), await embed_documents(plain, [text]))
    np.testing.assert_allclose(
        await embed_query(usual, "keys"), await embed_query(plain, "query: keys"), atol=1e-6
    )
    np.testing.assert_allclose(
        await embed_documents(usual, ["keys"]),
        await embed_documents(plain, ["passage: keys"]),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        await embed_query(other, "keys"), await embed_query(plain, "passage: keys"), atol=1e-6
    )
    assert len({model.fingerprint.key for model in (usual, plain, other)}) == 3


def test_every_model_that_needs_such_words_has_some() -> None:
    """Every model for which fastembed's list says that prefixes are necessary has some."""
    from fastembed import TextEmbedding

    needy = {
        supported_model["model"]
        for supported_model in TextEmbedding.list_supported_models()
        if "documents: not" not in supported_model["description"]
        and "Prefixes" in supported_model["description"]
    }
    assert [name for name in sorted(needy) if not any(prefixes_of(name))] == [
        "Qdrant/stella-en-400M-v5-doc-onnx"  # for documents only, according to its description
    ]


async def test_a_model_of_ones_own(hub: HubServer, tmp_path: Path) -> None:
    """Any repository can be used with a declared file and pooling; its dimension is measured."""
    mean = embedder(tmp_path, OWN, file="deep/model.onnx")
    first = embedder(tmp_path, OWN, file="deep/model.onnx", pooling="cls")
    assert mean.fingerprint.dimension is None
    (vector,) = await embed_documents(mean, ["keys snow"])
    assert vector.shape == (24,)
    assert np.linalg.norm(vector) == pytest.approx(1)
    # The first token is the same marker in every text.
    keys, other = await embed_documents(first, ["keys", "snow"])
    np.testing.assert_allclose(keys, other)
    assert first.fingerprint.key != mean.fingerprint.key
    again = embedder(tmp_path, OWN, file="deep/model.onnx")
    np.testing.assert_allclose(await embed_query(again, "keys snow"), vector, atol=1e-6)


async def test_what_is_cut(hub: HubServer, tmp_path: Path) -> None:
    """Texts that exceed the model's limit, including their prefixes, are counted."""
    model = embedder(tmp_path, document_prefix="query query ")
    texts = ["keys " * 60, "keys " * 61, "half a character \ud800"]
    assert await call(model.count_truncated, texts) == 1
    assert await call(embedder(tmp_path).count_truncated, texts) == 0
    assert await call(embedder(tmp_path).count_truncated, ["keys " * 63]) == 1


async def test_the_loop_stays_free(hub: HubServer, tmp_path: Path) -> None:
    """Neither a download nor the model blocks other tasks."""
    waiting, go = threading.Event(), threading.Event()
    hub.gate = lambda path: (waiting.set(), go.wait(10)) if GRAPH in path else None
    task = asyncio.create_task(embed_query(embedder(tmp_path), "keys"))
    assert await asyncio.to_thread(waiting.wait, 10)
    go.set()
    assert (await task).shape == (384,)


# Rerankers.


async def test_figures_are_the_models(hub: HubServer, tmp_path: Path) -> None:
    """Scores are the logistic function of the logits, in the order of the passages."""
    weights = onnx_models.WEIGHTS
    texts = ["snow", "rotate keys", "", "filler " * 20, "keys \ud800"]
    logits = [weights["snow"], weights["rotate"] + weights["keys"], 0, 0, weights["keys"]]
    model = reranker(tmp_path, batch_size=2)
    figures = await rerank_texts(model, "question", texts)
    assert figures == pytest.approx([1 / (1 + np.exp(-logit)) for logit in logits])
    assert await rerank_texts(model, "question", []) == []


async def test_a_cross_encoder_of_ones_own(hub: HubServer, tmp_path: Path) -> None:
    """A custom graph is used with `file`; one with two classes is refused."""
    words = onnx_models.tokenizer()
    files = onnx_models.hub_files("good.onnx", onnx_models.cross_encoder(), words)
    two = onnx_models.cross_encoder(classes=2, sizes=("batch", 2))
    hub.publish("acme/judge", files | {"two.onnx": two})
    (figure,) = await rerank_texts(reranker(tmp_path, "acme/judge", file="good.onnx"), "q", ["a"])
    assert figure == pytest.approx(0.5)
    with pytest.raises(RerankerError, match="returns 2 scores per pair; expected 1"):
        await rerank_texts(reranker(tmp_path, "acme/judge", file="two.onnx"), "q", ["a"])


# Commits.


async def test_a_model_stays_what_it_is(hub: HubServer, tmp_path: Path) -> None:
    """When the branch moves on the hub, this machine uses the first commit until it is changed."""
    first = embedder(tmp_path)
    before = await embed_query(first, "keys")
    old = hub.branches[EMBEDDER_REPOSITORY, "main"]
    new = hub.publish(EMBEDDER_REPOSITORY, embedder_files(seed=8))
    again = embedder(tmp_path)
    np.testing.assert_allclose(await embed_query(again, "keys"), before)
    assert old in again.fingerprint.revision
    assert again.fingerprint == first.fingerprint
    pinned = embedder(tmp_path, revision=old)
    assert pinned.fingerprint == first.fingerprint
    moved = embedder(tmp_path, revision=new)
    assert moved.fingerprint.key != first.fingerprint.key
    assert np.abs(await embed_query(moved, "keys") - before).max() > 0.01
    # Another machine uses the commit that is current now.
    elsewhere = embedder(tmp_path, cache_dir="other")
    assert elsewhere.fingerprint == moved.fingerprint


async def test_a_tag(hub: HubServer, tmp_path: Path) -> None:
    """A branch or a tag is looked up only once; the error names one that does not exist."""
    tagged = hub.publish(EMBEDDER_REPOSITORY, embedder_files(seed=9), branch="v2")
    model = embedder(tmp_path, revision="v2")
    assert tagged in model.fingerprint.revision
    hub.publish(EMBEDDER_REPOSITORY, embedder_files(seed=10), branch="v2")
    assert embedder(tmp_path, revision="v2").fingerprint == model.fingerprint
    with pytest.raises(EmbedderError, match=r"revision v3 .*check the revision"):
        await embed_query(embedder(tmp_path, revision="v3"), "keys")


async def test_a_commit_known_and_no_file(hub: HubServer, tmp_path: Path) -> None:
    """The commit that was looked up is downloaded, even if the branch has moved since."""
    commit = embedder(tmp_path).fingerprint.revision
    hub.publish(EMBEDDER_REPOSITORY, embedder_files(seed=8))
    model = embedder(tmp_path)
    await embed_query(model, "keys")
    assert model.fingerprint.revision == commit
    assert {commit.split("@")[1].split("/")[0] in request for request in hub.requests} == {True}


# Downloads.


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


async def test_offline(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    """The error says where it looked, why the download failed and what to do."""
    await embed_query(embedder(tmp_path), "keys")
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port}")
    await embed_query(embedder(tmp_path), "keys")
    with pytest.raises(EmbedderError) as failed:
        await embed_query(embedder(tmp_path, cache_dir="other"), "keys")
    problem = str(failed.value)
    assert f"is not in {tmp_path / 'other'}" in problem
    assert f"127.0.0.1:{closed_port}: ConnectError" in problem
    assert f"hf download {EMBEDDER_REPOSITORY} --revision main" in problem
    assert "cache_dir" in problem
    assert "HF_ENDPOINT" in problem
    with pytest.raises(RerankerError, match=r"is not in .* cannot be downloaded"):
        await rerank_texts(reranker(tmp_path), "q", ["a"])
    # The commit is known, but a file is missing.
    for graph in tmp_path.glob(f"models/*/snapshots/*/{GRAPH}"):  # noqa: ASYNC240
        graph.unlink()
    with pytest.raises(EmbedderError, match="cannot be downloaded from"):
        await embed_query(embedder(tmp_path), "keys")


async def test_the_command_that_messages_name(hub: HubServer, tmp_path: Path) -> None:
    """The command downloads everything needed to work without a network."""
    model = embedder(tmp_path)
    with without_downloads(), pytest.raises(NotDownloadedError, match="about 67 MB") as refused:
        await embed_query(model, "keys")
    assert not hub.requests
    hf, *arguments = shlex.split(str(refused.value).partition("to download it now: ")[2])
    assert hf == "hf"
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", "from huggingface_hub.cli.hf import main; main()", *arguments],
        env={"HF_ENDPOINT": hub.url, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    downloaded = len(hub.requests)
    await embed_query(embedder(tmp_path), "keys")
    assert len(hub.requests) == downloaded


async def test_a_connection_that_breaks(hub: HubServer, tmp_path: Path) -> None:
    """The download is retried for some time, then fails; the next use starts again."""
    hub.cuts = 7
    with pytest.raises(EmbedderError, match="peer closed connection"):
        await embed_query(embedder(tmp_path), "keys")
    assert (await embed_query(embedder(tmp_path), "keys")).shape == (384,)
    assert hub.cuts == 0
    assert hub.downloads().count(GRAPH) == 8


async def test_a_hub_that_falls_silent(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that stops responding while it lists the files is not waited for without end."""
    monkeypatch.setattr(snapshot, "_SECONDS", 0.5)
    commit, go = hub.branches[EMBEDDER_REPOSITORY, "main"], threading.Event()
    hub.gate = lambda path: go.wait(20) if "/api/" in path else None
    try:
        with pytest.raises(EmbedderError, match=r"cannot be downloaded from .*ReadTimeout"):
            await embed_query(embedder(tmp_path, revision=commit), "keys")
    finally:
        go.set()


async def test_a_download_that_nobody_waits_for(hub: HubServer, tmp_path: Path) -> None:
    """Cancelling does not wait for the download, and no partial file is used as the model."""
    waiting, go = threading.Event(), threading.Event()
    hub.gate = lambda path: (waiting.set(), go.wait(10)) if GRAPH in path else None
    model = embedder(tmp_path)
    task = asyncio.create_task(embed_query(model, "keys"))
    assert await asyncio.to_thread(waiting.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with without_downloads(), pytest.raises(NotDownloadedError):
        await embed_query(embedder(tmp_path), "keys")
    go.set()
    assert (await embed_query(model, "keys")).shape == (384,)
    assert hub.downloads().count(GRAPH) == 1


async def test_a_process_that_is_killed(hub: HubServer, tmp_path: Path) -> None:
    """The next process removes a killed process's partial files, and downloads the model."""
    waiting, go = threading.Event(), threading.Event()
    hub.gate = lambda path: (waiting.set(), go.wait(10)) if GRAPH in path else None
    process = embedding_process(tmp_path)
    assert await asyncio.to_thread(waiting.wait, 30)
    process.kill()
    await asyncio.to_thread(process.communicate)
    go.set()
    with without_downloads(), pytest.raises(NotDownloadedError):
        await embed_query(embedder(tmp_path), "keys")
    assert len(incomplete(tmp_path)) == 1
    assert (await embed_query(embedder(tmp_path), "keys")).shape == (384,)
    assert not incomplete(tmp_path)


async def test_remains_that_grow_are_kept(hub: HubServer, tmp_path: Path) -> None:
    """A running download of another process is not removed as the rest of a killed one."""
    waiting, go = threading.Event(), threading.Event()
    hub.gate = lambda path: (waiting.set(), go.wait(10)) if GRAPH in path else None
    task = asyncio.create_task(embed_query(embedder(tmp_path), "keys"))
    assert await asyncio.to_thread(waiting.wait, 10)
    await rerank_texts(reranker(tmp_path), "q", ["a"])  # also downloads
    assert len(incomplete(tmp_path)) == 1
    go.set()
    assert (await task).shape == (384,)


def incomplete(root: Path) -> list[Path]:
    return list(root.glob("models/*/blobs/*.incomplete"))


async def test_two_tasks_download_once(hub: HubServer, tmp_path: Path) -> None:
    """Concurrent callers wait for the running download."""
    model = embedder(tmp_path)
    vectors = await asyncio.gather(*(embed_query(model, "keys") for _ in range(4)))
    assert all(np.allclose(vector, vectors[0]) for vector in vectors)
    assert hub.downloads().count(GRAPH) == 1


async def test_two_processes_at_once(hub: HubServer, tmp_path: Path) -> None:
    """Both processes get the complete model."""
    for process in [embedding_process(tmp_path), embedding_process(tmp_path)]:
        _, errors = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, errors
    with without_downloads():
        assert (await embed_query(embedder(tmp_path), "keys")).shape == (384,)


async def test_what_is_shown(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the size and the folder comes first; without a terminal there is no bar."""
    await embed_query(embedder(tmp_path), "keys")
    line = capsys.readouterr().err
    assert line.startswith(f"downloading the model {EMBEDDER}, ")
    assert f" kB, into {tmp_path / 'models'}\n" in line
    assert line.count("\n") == 1


def test_a_bar_on_a_terminal() -> None:
    """The bar ends at the announced size."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    written = Terminal()
    with show_on(written, "downloading", 3_000_000) as advance:
        advance(1_000_000)
        advance(2_000_000)
    assert "3.00M/3.00M" in written.getvalue()


def test_sizes() -> None:
    """Sizes are rounded for people."""
    assert [megabytes(size) for size in (67e6, 2.24e9, 312_000)] == ["67 MB", "2.24 GB", "312 kB"]


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are in the user's cache folder, or in the declared one relative to the project."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert models_folder(None, tmp_path) == tmp_path / "caches" / "lorebind" / "fastembed"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_folder(None, tmp_path) == tmp_path / ".cache" / "lorebind" / "fastembed"
    assert models_folder("models", tmp_path) == tmp_path / "models"


# Refusals.


async def test_what_the_hub_does_not_have(hub: HubServer, tmp_path: Path) -> None:
    """Errors name a missing repository, or a missing file and the most similar one."""
    with pytest.raises(EmbedderError, match=r"check the name; .*HF_TOKEN"):
        await embed_query(embedder(tmp_path, "acme/nothing", file="model.onnx"), "keys")
    with pytest.raises(EmbedderError, match="check the name"):
        await embed_query(embedder(tmp_path, "no repository", file="model.onnx"), "keys")
    with pytest.raises(EmbedderError, match=r"has no file model.onnx; .*known: deep/model.onnx"):
        await embed_query(embedder(tmp_path, OWN, file="model.onnx"), "keys")


async def test_a_folder_that_cannot_be_made(hub: HubServer, tmp_path: Path) -> None:
    """If the folder cannot be created, the advice is about the folder."""
    (tmp_path / "models").write_text("a file")
    with pytest.raises(EmbedderError, match=r"NotADirectoryError.*make the folder writable"):
        await embed_query(embedder(tmp_path), "keys")


async def test_a_graph_that_cannot_be_loaded(hub: HubServer, tmp_path: Path) -> None:
    """The error names the embedder and quotes ONNX Runtime."""
    files = onnx_models.hub_files("m.onnx", b"no graph", onnx_models.piece_tokenizer())
    hub.publish("acme/broken", files)
    with pytest.raises(EmbedderError, match=r"embedder fastembed/acme/broken.*failed"):
        await embed_query(embedder(tmp_path, "acme/broken", file="m.onnx"), "keys")


def test_names_that_are_not_listed(tmp_path: Path) -> None:
    """The error suggests the nearest name, and says how to use another repository."""
    with pytest.raises(EmbedderError, match=f"did you mean {EMBEDDER!r}.*file:"):
        embedder(tmp_path, "BAAI/bge-smal-en-v1.5")
    with pytest.raises(RerankerError, match=f"did you mean {RERANKER!r}"):
        reranker(tmp_path, "Xenova/ms-marco-MiniLM-L6-v2")


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error gives the command that installs the extra."""
    for module in ("fastembed", "fastembed.rerank.cross_encoder"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'lorebind\[fastembed\]'"):
        embedder(tmp_path)
    with pytest.raises(MissingDependencyError, match=r"pip install 'lorebind\[fastembed\]'"):
        reranker(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"missing key 'model'"),
        ({"model": "a/b", "file": "weights.bin"}, r"file: "),
        ({"model": "a/b", "pooling": "mean"}, r"pooling is given without file"),
        ({"model": "a/b", "revision": "../../x"}, r"revision: "),
        ({"model": "a/b", "file": "m.onnx", "pooling": "max"}, r"pooling 'max' .*known: .*mean"),
    ],
)
def test_declarations_that_cannot_be(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    """Invalid declarations are refused with their location."""
    declared = {"id": "e", "provider": "fastembed"} | settings
    with pytest.raises(ConfigurationError, match=message):
        build_project({"name": "p", "embedders": [declared]}, root=tmp_path, environ={})
