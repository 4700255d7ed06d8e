"""`lorebind init`: write the first files of a project."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from lorebind.cli.options import Output, OutputOption
from lorebind.cli.printing import print_data
from lorebind.cli.schema import FOLDER, naming_the_file, write_schemas
from lorebind.cli.terminal import print_line
from lorebind.trust import trust
from lorebind_config.errors import ConfigurationError, UsageError

_BETTER = "{ id: default, provider: fastembed, model: BAAI/bge-small-en-v1.5 }"
"""An embedder of the same size that finds more, see docs/how-to/embedders.md."""

_PROJECT = """\
# yaml-language-server: $schema={schema}/project.json
# The knowledge of this project: declared once, bound everywhere by id.
name: {name}

# Omitted here, so these defaults apply:
#   embedders:  - {{ id: local, provider: local }}    no key, no server, no network
#   sparse_embedders:  - {{ id: local, provider: local }}    adds related words, in English
#   vector_dbs: - {{ id: sqlite, type: sqlite }}      the file .lorebind/lorebind.db
#   models:     - {{ id: default, provider: extractive }}   quotes the passages it is given
# With network access, a better embedder of the same size (pip install "lorebind[fastembed]"):
#   embedders:  - {better}

knowledge_bases:
  - id: docs
    description: {description}
    sources:
      - type: markdown_glob
        path: "{pattern}"
    chunking: {{ strategy: recursive_text_splitter, size: 800, overlap: 120 }}
    retrieval: {{ top_k: 5 }}

# Bound to every workflow, task and agent of the project.
knowledge:
  - id: docs
    max_tokens: 2000

autoload:
  include: ["workflows/*.yaml", "agents/*.yaml"]
"""

_WORKFLOW = """\
# yaml-language-server: $schema=../{schema}/workflow.json
id: answer
description: Answers one question from the project's knowledge, with citations.

input:
  question: {{ type: string, description: The question to answer. }}

agents:
  - id: librarian
    instructions: |
      Answer from the passages you are given, and cite them by their numbers.
      If they do not hold the answer, say so.

tasks:
  - id: reply
    agent: librarian
    prompt: "{{{{ .workflow.input.question }}}}"

outputs:
  answer: "{{{{ .tasks.reply.output }}}}"
"""


def init(
    folder: Annotated[
        Path, typer.Argument(help="The folder, which is created if it does not exist.")
    ] = Path(),
    output: OutputOption = Output.table,
) -> None:
    """Write a commented lorebind.yaml and a first workflow. Existing files are never overwritten.

    It also writes JSON Schemas, with which editors complete and check both files.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-_.") or "project"
    in_docs = (folder / "docs").is_dir()
    values = {
        "name": name,
        "description": "The Markdown files of the docs folder." if in_docs else "All Markdown.",
        "pattern": "docs/**/*.md" if in_docs else "**/*.md",
        "schema": FOLDER,
        "better": _BETTER,
    }
    files = {
        folder / "lorebind.yaml": _PROJECT.format(**values),
        folder / "workflows" / "answer.yaml": _WORKFLOW.format(**values),
    }
    for path in files:
        if path.exists():
            raise UsageError(f"{path} already exists; nothing was written")
    with naming_the_file():
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    written = [*files, *write_schemas(folder)]
    _trust(folder)
    if output is not Output.table:
        print_data({"written": [str(path) for path in written]}, output)
        return
    for path in written:
        print_line(f"wrote {path}")
    print_line(
        'with network access, a better embedder: pip install "lorebind[fastembed]", and in '
        f"lorebind.yaml: embedders: [{_BETTER}]"
    )
    where = "" if folder == Path() else f"cd {folder} && "
    print_line(f"next: {where}lorebind knowledge ingest docs")


def _trust(folder: Path) -> None:
    """Trust the new project, unless existing files make it demand something.

    Failures are ignored, because `ask` reports missing trust when it is needed.
    """
    from lorebind_config.trust import read_demands  # as in `load_config`

    with suppress(ConfigurationError, UsageError):
        demands = read_demands(folder)
        if not demands.all:
            trust(demands, own=True)
