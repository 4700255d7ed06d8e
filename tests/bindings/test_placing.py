"""`inject_as`: the places of passages in a prompt, and the names that a prompt can use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from langchain_core.embeddings import Embeddings

from lorebind_bindings import Request, Workflows, answer
from lorebind_bindings.prompt_template import Block, Prompt, label_of, literal
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import load_project
from lorebind_config.templates import TemplateError, injected_variable
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.ingest.engine import ingest
from tests.bindings.helpers import resolve

from .helpers import PARTS, OneModel, Scripted, WordCounter, write
from .workflow_helpers import task_fails

DOCUMENTS = {
    "guide/keys.md": "# Keys\n\nRotate the keys with the rotate command every ninety days.\n",
    "rules/keys.md": "# Rules\n\nWho may rotate the keys is written down in the rules.\n",
}
BASES = """\
checkpointer: { type: memory }
name: shop
knowledge_bases:
  - { id: guide, sources: [{ type: markdown_glob, path: "guide/*.md" }] }
  - { id: rules, sources: [{ type: markdown_glob, path: "rules/*.md" }] }
"""
QUESTION = "How do I rotate the keys?"
BLOCK = re.compile(r"<knowledge id=(\w+).*?</knowledge id=\1>", re.DOTALL)


class Noting(Embeddings):
    """Counts words, and records the searched texts."""

    questions: ClassVar[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(map(float, row)) for row in HashingEmbedder().embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        if text != "dimension":
            self.questions.append(text)
        return self.embed_documents([text])[0]


NOTING = f'embedders: [{{ id: words, provider: langchain, class: "{__name__}:Noting" }}]\n'


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    Noting.questions.clear()


def load(root: Path, prompt: str, knowledge: str, **task: Any) -> LoadedProject:
    """Load a project with a workflow of one task, whose bindings are given as YAML."""
    workflow = {
        "id": "w",
        "input": {"question": {}},
        "vars": {"tone": "kind"},
        "tasks": [
            {"id": "t", "prompt": prompt, "knowledge": yaml.safe_load(knowledge), **task},
        ],
    }
    project = f"{BASES}{NOTING}workflows: [{{ source: w.yaml }}]\n"
    files = DOCUMENTS | {"lorebind.yaml": project, "w.yaml": yaml.safe_dump(workflow)}
    return load_project(write(root, files), environ={"PASSWORD": "hunter2"})


async def sent(
    root: Path, prompt: str, knowledge: str, question: str = QUESTION, **task: Any
) -> tuple[str, list[str]]:
    """Return the prompt with shortened blocks, and the searched texts."""
    loaded = load(root, prompt, knowledge, **task)
    Noting.questions.clear()
    service = KnowledgeService(loaded)
    for kb in ("guide", "rules"):
        await ingest(service.open(kb).corpus())
    model = Scripted()
    await Workflows(loaded, service, OneModel(model)).run("w", {"question": question})
    await service.close()
    ((message,),) = model.heard
    return shortened(str(message.text)), list(Noting.questions)


def shortened(text: str) -> str:
    """Return a prompt with `<guide>` and `<rules>` in place of the blocks of passages."""

    def name(block: re.Match[str]) -> str:
        named = [kb for kb in ("guide", "rules") if f"{kb}/keys.md" in block[0]]
        return f"<{','.join(named)}>"

    return BLOCK.sub(name, text)


ASK = "{{ .input.question }}"


@pytest.mark.parametrize(
    ("inject_as", "place"),
    [
        ("docs", "{{ .docs }}"),
        ("context_docs", "{{.context_docs}}"),
        ("'{{ .workflow.vars.docs }}'", "{{ .workflow.vars.docs }}"),
        ("'{{.workflow.vars.tone}}'", "{{ .workflow.vars.tone }}"),
    ],
)
async def test_the_block_stands_where_the_prompt_says(
    tmp_path: Path, inject_as: str, place: str
) -> None:
    """The block is at its place and not before the prompt; it replaces a variable of that name."""
    prompt, queries = await sent(
        tmp_path, f"Read {place} and say: {ASK}", f"[{{ id: guide, inject_as: {inject_as} }}]"
    )
    assert prompt == f"Read <guide> and say: {QUESTION}"
    assert queries == [f"Read  and say: {QUESTION}"]


@pytest.mark.parametrize("inject_as", ["docs", "Operator handbook", "input", "null"])
async def test_without_a_place_it_stands_before(tmp_path: Path, inject_as: str) -> None:
    """A variable that the prompt does not use is a label, like any other text."""
    prompt, queries = await sent(tmp_path, ASK, f"[{{ id: guide, inject_as: {inject_as} }}]")
    assert prompt == f"<guide>\n\n{QUESTION}"
    assert queries == [QUESTION]


async def test_several_in_one_place_and_one_before(tmp_path: Path) -> None:
    """Blocks of one place follow each other in the order of the bindings."""
    both = "[{ id: rules, inject_as: docs }, { id: guide, inject_as: docs }]"
    prompt, _ = await sent(tmp_path, f"A {{{{ .docs }}}} B {ASK}", both)
    assert prompt == f"A <rules>\n\n<guide> B {QUESTION}"
    knowledge = "[{ id: rules }, { id: guide, inject_as: docs }]"
    prompt, _ = await sent(tmp_path, f"A {{{{ .docs }}}} B {ASK}", knowledge)
    assert prompt == f"<rules>\n\nA <guide> B {QUESTION}"


async def test_a_place_may_be_named_twice(tmp_path: Path) -> None:
    """A place that is named twice contains the block twice."""
    prompt, _ = await sent(
        tmp_path, "{{ .docs }} or {{ .docs }}", "[{ id: guide, inject_as: docs }]", query="keys"
    )
    assert prompt == "<guide> or <guide>"


async def test_the_fallback_goes_to_the_place(tmp_path: Path) -> None:
    """The fallback goes to the place; an empty fallback leaves the place empty."""
    missed = "id: guide, inject_as: docs, min_score: 0.99"
    template = f"A [{{{{ .docs }}}}] {ASK}"
    prompt, _ = await sent(tmp_path, template, f"[{{ {missed}, fallback: Nothing found. }}]")
    assert prompt == f"A [Nothing found.] {QUESTION}"
    prompt, _ = await sent(tmp_path, template, f"[{{ {missed}, fallback: '' }}]")
    assert prompt == f"A [] {QUESTION}"


async def test_what_people_write_is_no_template(tmp_path: Path) -> None:
    """Template syntax in an input is not evaluated."""
    for question in ("{{ .docs }}", "{{ .secrets.PASSWORD }} {{ .docs }}", "{{ what"):
        prompt, queries = await sent(
            tmp_path,
            f"{{{{ .docs }}}}: {ASK} keys",
            "[{ id: guide, inject_as: docs, min_score: 0 }]",
            question,
        )
        assert prompt == f"<guide>: {question} keys"
        assert queries == [f": {question} keys"]


async def test_passages_are_no_templates(tmp_path: Path) -> None:
    """Template syntax in documents and fallbacks is not evaluated."""
    document = "# Keys\n\nRotate keys with {{ .secrets.PASSWORD }} and {{ .docs }}.\n"
    write(tmp_path, {"guide/more.md": document})
    loaded = load(tmp_path, f"{{{{ .docs }}}} {ASK}", "[{ id: guide, inject_as: docs }]")
    service = KnowledgeService(loaded)
    await ingest(service.open("guide").corpus())
    model = Scripted()
    await Workflows(loaded, service, OneModel(model)).run("w", {"question": "Rotate keys"})
    await service.close()
    assert "with {{ .secrets.PASSWORD }} and {{ .docs }}." in str(model.heard[0][-1].text)


async def test_a_query_is_searched_for_instead(tmp_path: Path) -> None:
    """`query` is searched for instead of the prompt."""
    _, queries = await sent(
        tmp_path,
        "{{ .docs }}",
        "[{ id: guide, inject_as: docs }]",
        query="keys of {{ .input.question }}",
    )
    assert queries == [f"keys of {QUESTION}"]


@pytest.mark.parametrize("inject_as", ["prompt", "asked", "text", "question"])
async def test_a_plain_question_has_no_places(tmp_path: Path, inject_as: str) -> None:
    """With any `inject_as`, the question is unchanged, and the block is put before it."""
    knowledge = f"knowledge: [{{ id: guide, inject_as: {inject_as} }}]\n"
    files = DOCUMENTS | {"lorebind.yaml": BASES + PARTS + knowledge}
    loaded = load_project(write(tmp_path, files), environ={})
    service = KnowledgeService(loaded)
    await ingest(service.open("guide").corpus())
    model = Scripted()
    question = f"{QUESTION} {{{{ .{inject_as} }}}}"
    await answer(service, resolve(loaded), model, WordCounter(), Request(question))
    await service.close()
    assert shortened(str(model.heard[0][-1].text)) == f"<guide>\n\n{question}"


@pytest.mark.parametrize(
    ("prompt", "task", "problem"),
    [
        ("{{ .dosc }}", {}, "{{ .dosc }} is not defined: there is no scope 'dosc' here; "),
        ("{{ .workflow.vars.dosc }}", {}, "is not defined: .workflow.vars has no 'dosc'"),
        ("x", {"query": "{{ .docs }}"}, "{{ .docs }} is not defined: there is no scope 'docs'"),
    ],
)
def test_names_that_nothing_is_injected_as(
    tmp_path: Path, prompt: str, task: dict[str, Any], problem: str
) -> None:
    """Unknown names are reported when the project is loaded; only prompts can contain places."""
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, prompt, "[{ id: guide, inject_as: docs }]", **task)
    (mistake,) = caught.value.problems
    assert problem in str(mistake)
    assert mistake.file == "w.yaml"


@pytest.mark.parametrize(
    "inject_as",
    [
        "{{ .env.PASSWORD }}",
        "{{ .workflow.input.question }}",
        "{{ .workflow.vars.a.b }}",
        "{{ .docs }}",
        "{{ docs }}",
        "{{ .workflow.vars.x }} and more",
        "see {{ .workflow.vars.x }}",
        "{{",
        "",
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_other_templates_name_no_place(tmp_path: Path, inject_as: str, nested: bool) -> None:
    """`inject_as` is a label or one variable of the workflow, flat or below `retrieval`."""
    setting: dict[str, Any] = {"inject_as": inject_as}
    binding = {"id": "guide", **({"retrieval": setting} if nested else setting)}
    with pytest.raises(ConfigurationError, match="neither a label nor one variable; write a label"):
        load(tmp_path, "x", yaml.safe_dump([binding]))


async def test_a_place_that_only_another_task_fills(tmp_path: Path) -> None:
    """A place that only another task's bindings fill is an error when the task runs."""
    tasks = [
        {"id": "t", "prompt": "a", "knowledge": [{"id": "guide", "inject_as": "docs"}]},
        {"id": "u", "prompt": "{{ .docs }}"},
    ]
    workflow = yaml.safe_dump({"id": "w", "tasks": tasks})
    project = f"{BASES}{PARTS}workflows: [{{ source: w.yaml }}]\n"
    files = DOCUMENTS | {"lorebind.yaml": project, "w.yaml": workflow}
    loaded = load_project(write(tmp_path, files), environ={})
    service = KnowledgeService(loaded)
    await ingest(service.open("guide").corpus())
    with task_fails(TemplateError, r"\{\{ \.docs \}\} is not defined"):
        await Workflows(loaded, service, OneModel(Scripted())).run("w", {})
    await service.close()


@pytest.mark.parametrize(
    ("inject_as", "variable", "label"),
    [
        ("docs", ("docs",), "docs"),
        ("context-docs_2", ("context-docs_2",), "context-docs_2"),
        ("{{ .workflow.vars.docs }}", ("workflow", "vars", "docs"), "docs"),
        ("Operator handbook", (), "Operator handbook"),
        ("tasks", (), "tasks"),
        ("größe", (), "größe"),
    ],
)
def test_variable_and_label(inject_as: str, variable: tuple[str, ...], label: str) -> None:
    """A name of letters, digits, '-' and '_' is a variable and a label; scopes are labels only."""
    assert injected_variable(inject_as) == variable
    assert label_of(inject_as) == label
    assert label_of(None) is None


def test_filling_leaves_the_scopes_as_they_are() -> None:
    """Filling does not change the scopes, which the tasks of a run share."""
    scopes = {"workflow": {"vars": {"tone": "kind"}, "input": {}}}
    prompt = Prompt("{{ .workflow.vars.tone }} {{ .workflow.vars.docs }}", scopes)
    docs = "{{ .workflow.vars.docs }}"
    blocks = [Block("a", docs), Block("elsewhere", "Handbook"), Block("b", docs)]
    assert prompt.filled(blocks, [docs]) == (["elsewhere"], "kind a\n\nb")
    assert prompt.question([docs]) == "kind "
    assert scopes == {"workflow": {"vars": {"tone": "kind"}, "input": {}}}
    assert literal("{{ .x }} {{").filled([]) == ([], "{{ .x }} {{")
