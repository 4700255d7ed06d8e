"""The files of a model at one commit of its repository, downloaded at the first use.

They are stored in the layout of huggingface_hub, so that its tools can fill and clean up the
folder. A branch's commit is looked up once and written to `refs/` there, so that a model does not
change until its `revision` is set. Fastembed alone would load the branch's current commit.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from lorebind_config.errors import LorebindError, did_you_mean
from lorebind_config.plugins import import_extra

if TYPE_CHECKING:
    from lorebind_knowledge.hub_models.fastembed_models import HubModel

Show: TypeAlias = "Callable[[str, int], AbstractContextManager[Callable[[int], None]]]"
"""Takes the line and the total bytes; yields a function to call with each number of new bytes."""

shown_by: ContextVar[Show | None] = ContextVar("shown_by", default=None)
"""Replaces the way downloads are shown, for programs that control the terminal."""


def show_download(line: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show a download while the block runs."""
    return (shown_by.get() or partial(show_on, sys.stderr))(line, size)


@contextmanager
def show_on(stream: IO[str] | None, line: str, size: int) -> Iterator[Callable[[int], None]]:
    """Print the line to a stream, and a progress bar below it if the stream is a terminal.

    The bar does not hide the cursor, since the thread that draws it may end with the process.
    """
    if stream is None:  # a program without standard error, such as a Windows service
        yield lambda _: None
        return
    tqdm = import_extra("tqdm", extra="fastembed", purpose="downloading a model").tqdm
    print(line, file=stream, flush=True)
    with tqdm(
        total=size, unit="B", unit_scale=True, disable=not stream.isatty(), file=stream
    ) as bar:
        yield bar.update


def megabytes(size: float) -> str:
    """Format a number of bytes: `67 MB`, `2.24 GB`."""
    if size >= 1e9:
        return f"{size / 1e9:.3g} GB"
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"


_BESIDE = (
    *("config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("preprocessor_config.json", "tokenizer.json"),
)
_NEEDED = "tokenizer.json"
_DISK = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.ENOTDIR)
"""Errors of the folder rather than the network."""

_COMMIT = "[0-9a-f]{40}"
_SECONDS = 10
"""Timeout for asking the hub for a commit or its files; its client has none."""

_may_download: ContextVar[bool] = ContextVar("may_download", default=True)


class NotDownloadedError(LorebindError):
    """A model is missing, and downloads are not allowed at the moment."""


@contextmanager
def without_downloads() -> Iterator[None]:
    """Raise `NotDownloadedError` for a missing model within the block."""
    before = _may_download.set(False)
    try:
        yield
    finally:
        _may_download.reset(before)


class Snapshot:
    """The folder of a model. Thread-safe."""

    def __init__(
        self, model: HubModel, revision: str | None, cache: Path, failure: type[LorebindError]
    ) -> None:
        """
        Args:
            model: the model that the files belong to.
            revision: a commit, a branch or a tag; None means the branch `main`.
            cache: the folder of all models, which may not exist yet.
            failure: the class of the exceptions to raise.
        """
        self._model, self._revision, self._failure = model, revision or "main", failure
        self._cache = cache
        self._folder = cache / f"models--{model.repository.replace('/', '--')}"
        self._downloading = threading.Lock()  # callers that wait find the files of the first
        self._found: Path | None = None

    @cached_property
    def commit(self) -> str:
        """The commit that the revision stands for on this machine.

        If it is not known yet, the hub is asked.

        Raises:
            NotDownloadedError: see `without_downloads`.
            LorebindError: of the class `failure`; the commit cannot be found out.
        """
        if commit := self._known_commit():
            return commit
        self._refuse_if_told_to()
        with self._convert_errors():
            latest: str = self._info(self._revision).sha
            # Another process may have asked at the same time and got another commit.
            if (commit := self._known_commit()) is None:
                _write(self._folder / "refs" / self._revision, latest)
        return commit or latest

    def _known_commit(self) -> str | None:
        """Return the commit if it is declared or this machine has looked it up before."""
        if re.fullmatch(_COMMIT, self._revision):
            return self._revision
        with suppress(OSError):
            commit = (self._folder / "refs" / self._revision).read_text(encoding="utf-8").strip()
            return commit if re.fullmatch(_COMMIT, commit) else None
        return None

    async def fetch(self) -> Path:
        """Return the folder with the model's files, after downloading missing ones.

        Cancelling this does not stop a download, which continues while the process lives. The next
        process downloads an incomplete file again.

        Raises:
            NotDownloadedError: see `without_downloads`.
            LorebindError: of the class `failure`; the model cannot be downloaded.
        """
        from lorebind_knowledge.plumbing.bridge import (
            call_daemon,
        )  # every command imports this module

        return await call_daemon(self.get) if self._found is None else self._found

    def get(self) -> Path:
        """Sync version of `fetch`."""
        if self._found is None:
            with self._downloading:
                self._found = self._found or self._looked_for()
        return self._found

    def _looked_for(self) -> Path:
        folder = self._folder / "snapshots" / self.commit
        # The graph is downloaded last.
        if not all((folder / name).is_file() for name in (_NEEDED, self._model.file)):
            self._refuse_if_told_to()
            with self._convert_errors():
                self._download(folder)
        return folder

    def _download(self, folder: Path) -> None:
        model = self._model
        siblings = self._info(self.commit, files_metadata=True).siblings
        sizes = {file.rfilename: file.size or 0 for file in siblings}
        for needed in (_NEEDED, model.file):
            if needed not in sizes:
                alike = [size for size in sizes if Path(size).suffix == Path(needed).suffix]
                hint = did_you_mean(needed, alike)
                raise self._failure(f"{self._where()} has no file {needed}; {hint}")
        files = [file for file in (*_BESIDE, *model.beside, model.file) if file in sizes]
        missing = [file for file in files if not (folder / file).is_file()]
        size = sum(sizes[file] for file in missing)
        line = f"downloading the model {model.name}, {megabytes(size)}, into {self._cache}"
        self._remove_remains()
        with show_download(line, size) as advance:
            for file in missing:
                # Not `snapshot_download`: its pool of threads would delay the exit of the process.
                _import_hub().hf_hub_download(
                    model.repository,
                    file,
                    revision=self.commit,
                    cache_dir=self._cache,
                    endpoint=_endpoint(),
                    tqdm_class=_counting(advance),
                )

    def _info(self, revision: str, **more: bool) -> Any:
        hub = _import_hub().HfApi(endpoint=_endpoint())
        return hub.model_info(self._model.repository, revision=revision, timeout=_SECONDS, **more)

    def _remove_remains(self) -> None:
        """Remove the partial downloads, of any model, that killed processes left behind."""
        from filelock import FileLock, Timeout  # slow to import

        for remains in self._cache.glob("models--*/blobs/*.incomplete"):
            locks = self._cache / ".locks" / remains.parent.parent.name
            name = remains.name.partition(".")[0]
            with suppress(Timeout, OSError), FileLock(locks / f"{name}.lock", timeout=0):
                remains.unlink()  # a process that is downloading it would hold the lock

    def _where(self) -> str:
        model = self._model
        return f"the model {model.name} (revision {self._revision} of {model.repository})"

    def _refuse_if_told_to(self) -> None:
        if _may_download.get():
            return
        gigabytes = self._model.gigabytes
        size = f", about {megabytes(gigabytes * 1e9)}" if gigabytes else ""
        raise NotDownloadedError(
            f"{self._where()} is not in {self._cache} yet; its first use downloads it{size}; "
            f"to download it now: {self._command()}"
        )

    def _command(self) -> str:
        """Return a command that downloads the model, with a tool that fastembed installs."""
        revision = self._known_commit() or self._revision  # a branch may have moved since
        command = f"hf download {self._model.repository} --revision {revision} --include"
        files = "*.json", "--include", f"{self._model.file}*", "--cache-dir", str(self._cache)
        return shlex.join([*command.split(" "), *files])

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert exceptions of the hub's client to failures with a suggested fix."""
        errors = _import_hub("huggingface_hub.errors")
        try:
            yield
        except LorebindError:
            raise
        except Exception as error:  # hub client, HTTP client and disk raise unrelated classes
            if isinstance(error, errors.RevisionNotFoundError):
                advice = "check the revision"
            elif isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
                advice = "check the name; a private or gated model needs your token as HF_TOKEN"
            elif isinstance(error, errors.HfHubHTTPError) and error.response is not None:
                advice = "try again later, or set HF_ENDPOINT to a mirror of the hub"
            elif isinstance(error, OSError) and error.errno in _DISK:
                advice = "make the folder writable and large enough, or set cache_dir to another"
            else:
                advice = (
                    "without a network, run this on a machine that has one and copy the folder "
                    f"here: {self._command()}; or set cache_dir to a folder that has the model, or "
                    "HF_ENDPOINT to a mirror of the hub"
                )
            raise self._failure(
                f"{self._where()} is not in {self._cache}, and it cannot be downloaded from "
                f"{_public(_endpoint())}: {_reason(error)}; {advice}"
            ) from error


def _counting(advance: Callable[[int], None]) -> type:
    """Return a class that huggingface_hub uses as progress bars, and that only counts bytes."""

    class Counting(nullcontext[Any]):
        def __init__(self, *, initial: int = 0, **_: Any) -> None:
            super().__init__(self)
            advance(initial)

        def update(self, count: int = 1) -> None:
            advance(count)

        def __getattr__(self, name: str) -> Callable[..., None]:
            """Ignore other calls, such as for the bytes received of a file that has parts."""
            return lambda *_, **__: None

    return Counting


def _import_hub(module: str = "huggingface_hub") -> Any:
    return import_extra(module, extra="fastembed", purpose="downloading a model")


def _endpoint() -> str:
    """Return the hub that the environment names, or else the public one."""
    default: str = _import_hub("huggingface_hub.constants").ENDPOINT
    return (os.environ.get("HF_ENDPOINT") or default).rstrip("/")


def _reason(error: Exception) -> str:
    """Return an error's message on one line, without the secrets in addresses."""
    return f"{type(error).__name__}: {_public(' '.join(str(error).split()))}"


def _public(text: str) -> str:
    """Remove signatures and passwords from the addresses in a text."""
    text = re.sub(r"(https?://)[^\s/@]+@", r"\1", text)
    return re.sub(r"(https?://[^\s?]++)(?:\?\S+)?", r"\1", text)


def _write(path: Path, text: str) -> None:
    """Write a file atomically: readers see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
