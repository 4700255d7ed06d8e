"""The files of a model at one commit of its repository, downloaded at the first use.

They lie in the layout of huggingface_hub, so that its tools can fill and clean up the folder. A
branch's commit is looked up once and written to `refs/` there: a model stays what it is until its
`revision` is set. Fastembed would take what the branch points to at the moment.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from lorebind_knowledge.bridge import call_daemon
from lorebind_knowledge.errors import LorebindError, did_you_mean
from lorebind_knowledge.extras import import_extra
from lorebind_knowledge.hub_models.showing import megabytes, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lorebind_knowledge.hub_models.fastembed_models import HubModel

_BESIDE = (
    *("config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("preprocessor_config.json", "tokenizer.json"),
)
_NEEDED = "tokenizer.json"
_DISK = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.ENOTDIR)
"""What is wrong with the folder, and not with the network."""

_COMMIT = "[0-9a-f]{40}"
_SECONDS = 10
"""The longest wait for the hub to say which commit a branch points to."""

_may_download: ContextVar[bool] = ContextVar("may_download", default=True)


class NotDownloadedError(LorebindError):
    """A model is not there, and it was said that it must not be downloaded now."""


@contextmanager
def without_downloads() -> Iterator[None]:
    """In the block a model that is not there raises `NotDownloadedError`."""
    before = _may_download.set(False)
    try:
        yield
    finally:
        _may_download.reset(before)


class Snapshot:
    """The folder of a model. Safe to share among threads."""

    def __init__(
        self, model: HubModel, revision: str | None, cache: Path, failure: type[LorebindError]
    ) -> None:
        """
        Args:
            model: whose files these are.
            revision: a commit, or a branch or a tag; None means the branch `main`.
            cache: the folder of all models; it may not be there yet.
            failure: what is raised.
        """
        self._model, self._revision, self._failure = model, revision or "main", failure
        self._cache = cache
        self._folder = cache / f"models--{model.repository.replace('/', '--')}"
        self._downloading = threading.Lock()
        self._found: Path | None = None

    @cached_property
    def commit(self) -> str:
        """The commit that the revision means on this machine.

        The hub is asked for it where that is not known yet.

        Raises:
            NotDownloadedError: see `without_downloads`.
            LorebindError: of the kind `failure`; it cannot be found out.
        """
        if known := self._known_commit():
            return known
        self._refuse_if_told_to()
        with self._saying():
            hub = _import_hub().HfApi(endpoint=_endpoint())
            found: str = hub.model_info(
                self._model.repository, revision=self._revision, timeout=_SECONDS
            ).sha
            # Another process may have asked too, and been answered otherwise.
            if (known := self._known_commit()) is None:
                _write(self._folder / "refs" / self._revision, found)
        return known or found

    def _known_commit(self) -> str | None:
        """The commit, where it is given or this machine has looked it up."""
        if re.fullmatch(_COMMIT, self._revision):
            return self._revision
        with suppress(OSError):
            known = (self._folder / "refs" / self._revision).read_text(encoding="utf-8").strip()
            return known if re.fullmatch(_COMMIT, known) else None
        return None

    async def fetch(self) -> Path:
        """The folder with the model's files, which are downloaded if they are not there.

        Cancelling this does not stop a download, which goes on while the process lives. The next
        process downloads an incomplete file again.

        Raises:
            NotDownloadedError: see `without_downloads`.
            LorebindError: of the kind `failure`; it cannot be downloaded.
        """
        return await call_daemon(self.get) if self._found is None else self._found

    def get(self) -> Path:
        """The same for a caller that blocks."""
        if self._found is None:
            with self._downloading:
                self._found = self._found or self._looked_for()
        return self._found

    def _looked_for(self) -> Path:
        folder = self._folder / "snapshots" / self.commit
        # The graph is the last that is downloaded.
        if not all((folder / one).is_file() for one in (_NEEDED, self._model.file)):
            self._refuse_if_told_to()
            with self._saying():
                self._download(folder)
        return folder

    def _download(self, folder: Path) -> None:
        model, hub = self._model, _import_hub()
        tree = hub.HfApi(endpoint=_endpoint()).list_repo_tree(
            model.repository, revision=self.commit, recursive=True
        )
        sizes = {
            one.path: one.size
            for one in tree
            if isinstance(one, _import_hub("huggingface_hub.hf_api").RepoFile)
        }
        for needed in (_NEEDED, model.file):
            if needed not in sizes:
                alike = [one for one in sizes if Path(one).suffix == Path(needed).suffix]
                hint = did_you_mean(needed, alike)
                raise self._failure(f"{self._where()} has no file {needed}; {hint}")
        files = [one for one in (*_BESIDE, *model.beside, model.file) if one in sizes]
        missing = [one for one in files if not (folder / one).is_file()]
        size = sum(sizes[one] for one in missing)
        line = f"downloading the model {model.name}, {megabytes(size)}, into {self._cache}"
        self._remove_remains()
        with shown(line, size) as advance:
            for file in missing:
                hub.hf_hub_download(
                    model.repository,
                    file,
                    revision=self.commit,
                    cache_dir=self._cache,
                    endpoint=_endpoint(),
                    tqdm_class=_counting(advance),
                )

    def _remove_remains(self) -> None:
        """Remove what processes that were killed have downloaded of files, of any model."""
        for remains in self._cache.glob("models--*/blobs/*.incomplete"):
            locks = self._cache / ".locks" / remains.parent.parent.name
            name = remains.name.partition(".")[0]
            with suppress(Timeout, OSError), FileLock(locks / f"{name}.lock", timeout=0):
                remains.unlink()  # whoever downloads it has the lock

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
        """What downloads the model by hand, with a tool that fastembed brings."""
        revision = self._known_commit() or self._revision  # a branch's may have moved since
        command = f"hf download {self._model.repository} --revision {revision} --include"
        files = "*.json", "--include", f"{self._model.file}*", "--cache-dir", str(self._cache)
        return shlex.join([*command.split(" "), *files])

    @contextmanager
    def _saying(self) -> Iterator[None]:
        """What the hub's client raises inside becomes a failure that says what to do."""
        errors = _import_hub("huggingface_hub.errors")
        try:
            yield
        except LorebindError:
            raise
        except Exception as error:  # the hub's client, its HTTP client and the disk raise anything
            if isinstance(error, errors.RevisionNotFoundError):
                advice = "check the revision"
            elif isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
                advice = "check the name; a private or gated model needs your token as HF_TOKEN"
            elif isinstance(error, errors.HfHubHTTPError) and error.response is not None:
                advice = "try again later, or name a mirror of the hub by the variable HF_ENDPOINT"
            elif isinstance(error, OSError) and error.errno in _DISK:
                advice = "make the folder writable and large enough, or name another by cache_dir"
            else:
                advice = (
                    "without a network, run this where there is one and copy the folder here: "
                    f"{self._command()}; or name a folder that has it by cache_dir, or a mirror "
                    "of the hub by the variable HF_ENDPOINT"
                )
            raise self._failure(
                f"{self._where()} is not in {self._cache}, and it cannot be downloaded from "
                f"{_shown(_endpoint())}: {_reason(error)}; {advice}"
            ) from error


def _counting(advance: Callable[[int], None]) -> type:
    """What huggingface_hub takes for a class of bars, one for each file: it counts bytes."""

    class Counting:
        def __init__(self, *, initial: int = 0, **_: Any) -> None:
            advance(initial)

        def update(self, count: int = 1) -> None:
            advance(count)

        def update_transfer(self, count: int) -> None:
            """What came over the network, where files are put together from parts."""

        def set_postfix_str(self, *_: Any, **__: Any) -> None: ...

        def set_transfer_postfix_str(self, *_: Any, **__: Any) -> None: ...

        def close(self) -> None: ...

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *_: object) -> None: ...

    return Counting


def _import_hub(module: str = "huggingface_hub") -> Any:
    return import_extra(module, extra="fastembed", purpose="downloading a model")


def _endpoint() -> str:
    """The hub that the process's environment names, or the one that everybody uses."""
    default: str = _import_hub("huggingface_hub.constants").ENDPOINT
    return (os.environ.get("HF_ENDPOINT") or default).rstrip("/")


def _reason(error: Exception) -> str:
    """An error's words on one line, without the secrets in addresses."""
    return f"{type(error).__name__}: {_shown(' '.join(str(error).split()))}"


def _shown(text: str) -> str:
    """A text whose addresses are without signatures and passwords."""
    text = re.sub(r"(https?://)[^\s/@]+@", r"\1", text)
    return re.sub(r"(https?://[^\s?]+)\?\S+", r"\1", text)


def _write(path: Path, text: str) -> None:
    """Write a file at once: whoever reads it sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    made.write_text(text, encoding="utf-8")
    made.replace(path)
