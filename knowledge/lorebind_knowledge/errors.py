"""Everything that Lorebind raises, sorted by who has to act.

LorebindError
├── ConfigurationError (ValueError)       the author of the YAML: every problem, with its position
├── UsageError (ValueError)               the caller: an argument that cannot be
├── NotFoundError (LookupError)           the caller: an id that this project does not have
│   └── NotIngestedError                  the operator: nothing to search yet
├── MissingDependencyError (ImportError)  whoever installs: an extra is not there
├── PluginError (ImportError)             whoever installs: a plugin is broken, or a name is taken
├── SourceError                           the owner of the documents: cannot be read or found
│   └── DocumentLimitError                a document takes more memory or time than it may
├── EmbedderError                         the operator: the embedder failed
├── RerankerError                         the operator: the reranker failed
├── StoreError                            the operator: the store failed
│   ├── IndexMismatchError                the operator: the index was built with other settings
│   ├── LeaseLostError                    the operator: another ingest took over from this one
│   └── ReadOnlyError                     the operator: the index is where nothing can be written
├── IngestRefusedError                    the operator: an ingest would do harm
│   └── IngestRunningError                another ingest of the same knowledge base is under way
├── RateLimitError                        the caller: too many queries, and when to ask again
├── ModelError                            the operator: the chat model failed
├── TaskError                             the author of the workflow: a task of a run failed
└── ThreadRefusedError                    the caller: a thread cannot be run or resumed like this
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class LorebindError(Exception):
    """The root of all errors of Lorebind; its text says what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong in a configuration file, where it is, and the way out."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class ConfigurationError(LorebindError, ValueError):
    """The project's files are not valid; `problems` lists everything wrong in all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        super().__init__("\n".join(map(str, self.problems)))


class UsageError(LorebindError, ValueError):
    """An argument that cannot be right, whatever the configuration."""

    def __init__(self, message: str, *, at: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.at = at
        """The argument, and the key within it, where the error is about one: `input`, `ticket`."""


class NotFoundError(LorebindError, LookupError):
    """A knowledge base, workflow, task, agent or document of that id is not there."""


class NotIngestedError(NotFoundError):
    """A knowledge base is declared, but nothing has been ingested into it."""


class MissingDependencyError(LorebindError, ImportError):
    """An optional part was asked for whose extra is not installed."""


class PluginError(LorebindError, ImportError):
    """What another distribution plugs in cannot be loaded, or is not what it is installed as."""


class SourceError(LorebindError):
    """A source or one of its documents cannot be enumerated, read or understood."""


class DocumentLimitError(SourceError):
    """Reading a document takes more than `loading:` allows, or ends the process that reads it."""


class EmbedderError(LorebindError):
    """The embedder cannot be built, failed, or returned something that is not its vectors."""


class RerankerError(LorebindError):
    """The reranker cannot be built, failed, or returned something that is not its figures."""


class StoreError(LorebindError):
    """A vector store or the catalog cannot be reached or refused an operation."""


class IndexMismatchError(StoreError):
    """The index on disk was built by another embedder or chunker than is configured now."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command
        """What to run in a shell to repair it; empty where the text alone says what to do."""


class LeaseLostError(StoreError):
    """A writer was cut off for so long that another one took its place; it changed nothing more."""


class ReadOnlyError(StoreError):
    """The index is there and can be searched, but it is where this process cannot write."""


class IngestRefusedError(LorebindError):
    """An ingest was not started or not finished because it could have done harm."""


class IngestRunningError(IngestRefusedError):
    """Another ingest of the same knowledge base is under way; it may be waited for."""


class RateLimitError(LorebindError):
    """A tenant asked more often than it may."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """The seconds after which a query is let through again."""


class ModelError(LorebindError):
    """A chat model cannot be built, or failed to answer."""


class TaskError(LorebindError):
    """A task failed, and no `on_error` says what to do then. What others finished is kept."""

    def __init__(self, message: str, *, task: str, path: str, thread_id: str = "") -> None:
        super().__init__(message)
        self.task = task
        """The id of the task."""
        self.path = path
        """Where it ran, as in `answers[3].answer`."""
        self.thread_id = thread_id
        """The thread to resume."""


class ThreadRefusedError(LorebindError):
    """A thread runs already, waits for answers, failed, or is of a workflow that has changed."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, None where none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint for a name that is not among the known: its nearest neighbour, then all of them."""
    names = sorted(known)
    near = nearest(name, names)
    guess = f"did you mean {near!r}; " if near else ""
    return f"{guess}known: {', '.join(names) or 'none'}"
