"""All errors that Lorebind raises, sorted by who has to act.

LorebindError
├── ConfigurationError (ValueError)       the author of the YAML: all problems, with their positions
│   └── MissingVariableError              the operator: a part needs a variable that is not set
├── UsageError (ValueError)               the caller: an argument is wrong
│   └── TenantRequiredError               the caller: the project requires a named tenant
├── NotFoundError (LookupError)           the caller: the project has nothing with this id
│   └── NotIngestedError                  the operator: there is nothing to search yet
├── MissingDependencyError (ImportError)  the operator: an extra is not installed
├── PluginError (ImportError)             the operator: a plugin is broken, or two claim a name
├── SourceError                           the owner of the documents: cannot be read or found
│   ├── DocumentLimitError                a document exceeds the limits of memory or time
│   └── DocumentChangedError              a document is not what was ingested; ingest again
├── EmbedderError                         the operator: the embedder failed
├── RerankerError                         the operator: the reranker failed
├── StoreError                            the operator: the store failed
│   ├── DatabaseUnavailableError          the operator: PostgreSQL does not answer; try again
│   ├── IndexMismatchError                the operator: the index was built with other settings
│   ├── LeaseLostError                    the operator: another ingest took over from this one
│   └── ReadOnlyError                     the operator: the index cannot be written
├── IngestRefusedError                    the operator: an ingest would do harm
│   └── IngestRunningError                another ingest of the same knowledge base is running
├── RateLimitError                        the caller: too many queries, and when to retry
├── ModelError                            the operator: the chat model failed
├── ToolError                             the operator: the server of an agent's tools failed
├── TaskError                             the author of the workflow: a task of a run failed
└── ThreadRefusedError                    the caller: a thread cannot be run or resumed like this
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A shell command that the message of an error suggests."""

    command: str
    text: str = ""
    """The part of the message that it replaces, such as a request; empty: the command itself."""

    def __str__(self) -> str:
        return self.text or self.command

    def on_server(self, url: str, tenant: str | None) -> str:
        """Return the command for a server, and for a tenant unless the command names one."""
        names_tenant = tenant is None or " --tenant " in self.command
        whose = "" if names_tenant else f" --tenant {shlex.quote(str(tenant))}"
        return f"{self.command} --server {shlex.quote(url)}{whose}"


class LorebindError(Exception):
    """The base class of all errors of Lorebind. The message says what to do."""

    def __init__(self, *message: object, suggestions: Sequence[Suggestion] = ()) -> None:
        super().__init__(*message)
        self.suggestions = suggestions
        """The commands in the message that need `--server` for the project of a server."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem in a configuration file, with its position and a suggested fix."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class ConfigurationError(LorebindError, ValueError):
    """The project's files are not valid. `problems` lists all problems of all files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        super().__init__("\n".join(map(str, self.problems)))


class MissingVariableError(ConfigurationError):
    """A part of the project is used whose templates name a variable that is not set."""


class UsageError(LorebindError, ValueError):
    """An argument is wrong, independent of the configuration."""

    def __init__(self, message: str, hint: str = "", *, at: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message, self.hint = message, hint
        self.at = at
        """The argument and the key within it, if the error concerns one: `input`, `ticket`."""
        self.all: Sequence[UsageError] = ()
        """The errors that it combines, if there are several."""

    @classmethod
    def of(cls, errors: Sequence[UsageError]) -> UsageError:
        """Combine several errors into one."""
        combined = cls("; ".join(map(str, errors)))
        combined.all = errors
        return errors[0] if len(errors) == 1 else combined


class TenantRequiredError(UsageError):
    """The project declares `tenancy: required`, and the call names no tenant."""


class NotFoundError(LorebindError, LookupError):
    """There is no knowledge base, workflow, task, agent or document with this id."""


class NotIngestedError(NotFoundError):
    """A knowledge base is declared, but nothing has been ingested into it."""


class MissingDependencyError(LorebindError, ImportError):
    """An optional feature is used, but its extra is not installed."""


class PluginError(LorebindError, ImportError):
    """A plugin cannot be loaded, or does not fit the group that it is installed for."""


class SourceError(LorebindError):
    """A source or one of its documents cannot be listed, read or parsed."""


class DocumentLimitError(SourceError):
    """Reading a document exceeds the limits of `loading:`, or ends the process that reads it."""


class DocumentChangedError(SourceError):
    """A document of a source is no longer what was ingested, so its pages cannot be shown."""


class EmbedderError(LorebindError):
    """The embedder cannot be created, failed, or returned something other than valid vectors."""


class RerankerError(LorebindError):
    """The reranker cannot be created, failed, or returned something other than valid scores."""


class StoreError(LorebindError):
    """A vector store or the catalog cannot be reached, or refused an operation."""


class DatabaseUnavailableError(StoreError):
    """PostgreSQL cannot be reached, or the connection was lost; the same call may succeed later."""


class IndexMismatchError(StoreError):
    """The index was built with another embedder or chunker than the configured one."""


class LeaseLostError(StoreError):
    """A writer was interrupted so long that another one took over; it wrote nothing more."""


class ReadOnlyError(StoreError):
    """The index can be searched, but this process cannot write to it."""


class IngestRefusedError(LorebindError):
    """An ingest was not started or not finished, because it could have done harm."""


class IngestRunningError(IngestRefusedError):
    """Another ingest of the same knowledge base is running; the caller can wait for it."""


class RateLimitError(LorebindError):
    """A tenant exceeded its rate limit."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which a query is allowed again."""


class ModelError(LorebindError):
    """A chat model cannot be created, or failed to answer."""


class ToolError(LorebindError):
    """A server whose tools an agent can call does not run, or does not have these tools."""


class TaskError(LorebindError):
    """A task failed, and no `on_error` handles it. The results of finished tasks are stored."""

    def __init__(
        self,
        message: str,
        *,
        task: str,
        path: str,
        thread_id: str = "",
        suggestions: Sequence[Suggestion] = (),
    ) -> None:
        super().__init__(message, suggestions=suggestions)
        self.task = task
        """The id of the task."""
        self.path = path
        """The path of the task in the run, such as `answers[3].answer`."""
        self.thread_id = thread_id
        """The thread to resume."""


class ThreadRefusedError(LorebindError):
    """A thread is already running, waits for answers, failed, or its workflow has changed."""


_LONGEST_NAME = 200
"""The comparison is quadratic, so longer texts, which callers may send, are not compared."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that is most similar, or None if none is similar."""
    if len(name) > _LONGEST_NAME:
        return None
    import difflib  # takes 1 ms, and few processes have an error to word

    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.6)
    return near[0] if near else None


def text_of(error: BaseException) -> str:
    """Return the message of an exception, even of one whose `str` fails."""
    try:
        return str(error)
    except BaseException as broken:  # third-party code
        return f"its message cannot be read, because str() raised {type(broken).__name__}"


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Return a hint for an unknown name: the most similar known name, then all known names."""
    names = sorted(options)
    near = nearest(name, names)
    guess = f"did you mean {near!r}; " if near else ""
    return f"{guess}known: {', '.join(names) or 'none'}"
