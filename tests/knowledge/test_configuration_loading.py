"""A project loads from all its files, reports all problems together, and finds things by id."""

import pytest
import yaml

from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.errors import ConfigurationError, NotFoundError
from lorebind_config.reading.loading import build_project, load_project
from lorebind_knowledge.sources.folder.files import MarkdownGlobSource

SMALLEST = """\
name: demo
knowledge_bases:
  - id: docs
    sources: [{type: markdown_glob, path: "docs/**/*.md"}]
"""

PROJECT = """\
name: support
description: Shows {{ .env.X }} to people
embedders:
  - id: tests
    provider: hashing
  - id: default
    provider: langchain
    class: "langchain_openai:OpenAIEmbeddings"
    api_key: "{{ .env.OPENAI_API_KEY }}"
    config: {retries: 3, headers: {authorization: "Bearer {{ .secrets.TOKEN }}"}}
vector_dbs:
  - {id: file, type: sqlite, config: {path: "{{ .env.DATA }}/x.db"}}
knowledge_bases:
  - id: docs
    embedder: tests
    vector_db: file
    sources: [{type: file_glob, paths: ["docs/*"], exclude: ["docs/old*"]}]
    chunking: {size: 400}
    metadata: {tags: [a, b], year: 2024}
knowledge:
  - {id: docs, max_tokens: 2000}
models:
  - {id: big, provider: openai, model: gpt-x, api_key: "{{ .env.OPENAI_API_KEY }}"}
agents:
  - {id: helper, model: big, instructions: Help., knowledge: [{id_ref: docs}]}
autoload: {include: ["agents/*.yaml", "workflows/**/*.yaml"], exclude: ["**/draft*"]}
"""

AGENT = "resource: agent\nid: critic\nknowledge: [{id: docs, top_k: 3}]\n"

WORKFLOW = """\
id: triage
version: "1"
input:
  question: {description: What the customer asks.}
  lines: {type: array, required: false}
vars: {tone: kind, deep: {er: 1}, made: "{{ .workflow.input.question }}"}
knowledge_bases:
  - id: docs
    sources: [{type: markdown_glob, path: ./own/*.md}]
  - id: own
    sources: [{type: markdown_glob, path: ./own/*.md}]
knowledge: [{id: own}]
agents:
  - {id: local, knowledge: [{id: own}]}
tasks:
  - id: first
    agent: critic
    prompt: "{{ .workflow.input.question }} {{ .input.lines.0 }} {{ .workflow.vars.deep.er }}"
  - id: second
    agent: local
    prompt: "{{ .tasks.first.output }}: {{ .workflow.vars.tone }}, {{ .env.DATA }}"
    query: "{{ .tasks.first.output.topic }}"
    knowledge: [{id: docs, retrieval: {top_k: 2}}]
outputs: {answer: "{{ .tasks.second.output }}"}
"""

ENVIRON = {"OPENAI_API_KEY": "hidden-key", "TOKEN": "hidden-token", "DATA": "data"}


def _write(root, **files):
    for name, text in {
        "lorebind.yaml": PROJECT,
        "agents/critic.yaml": AGENT,
        "workflows/triage.yaml": WORKFLOW,
        "workflows/draft.yaml": "- broken",
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def _problems(root, environ=ENVIRON):
    with pytest.raises(ConfigurationError) as caught:
        load_project(root, environ=environ, need_variables=True)
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_project_has_defaults(tmp_path):
    """A name and one knowledge base are enough; everything else has local defaults."""
    (tmp_path / "lorebind.yaml").write_text(SMALLEST)
    loaded = load_project(tmp_path, environ={})

    assert loaded.root == tmp_path.resolve()
    assert loaded.file == tmp_path.resolve() / "lorebind.yaml"
    assert (loaded.embedder().id, loaded.embedder().provider) == ("local", "local")
    assert (loaded.vector_db().id, loaded.vector_db().type) == ("sqlite", "sqlite")
    assert (loaded.model().id, loaded.model().provider) == ("default", "extractive")
    assert loaded.embedder("local") == loaded.embedder(None)
    kb, scope = loaded.knowledge_base("docs")
    assert (kb.chunking.size, kb.chunking.overlap, scope) == (800, 120, "project")


def test_a_whole_project_is_loaded(tmp_path):
    """Agents and workflows are loaded from separate files, without the excluded drafts."""
    loaded = load_project(_write(tmp_path) / "lorebind.yaml", environ=ENVIRON)

    assert sorted(loaded.agents) == ["critic", "helper"]
    assert list(loaded.workflows) == ["triage"]
    assert loaded.embedder().id == "default"
    assert loaded.vector_db().id == "file"
    assert loaded.model().id == "big"
    assert str(loaded.workflows["triage"].tasks[1].position("query")) == (
        "workflows/triage.yaml:22:5"
    )
    embedder = loaded.embedder("default")
    assert loaded.environment.fill(embedder.config) == {
        "retries": 3,
        "headers": {"authorization": "Bearer hidden-token"},
    }


def test_a_workflow_sees_its_own_knowledge_base_first(tmp_path):
    """It takes precedence over the project's with the same id; the project does not see it."""
    loaded = load_project(_write(tmp_path), environ=ENVIRON)

    assert loaded.knowledge_base("docs")[1] == "project"
    assert loaded.knowledge_base("docs", "triage")[1] == "workflow/triage"
    assert loaded.knowledge_base("docs", "triage")[0].sources[0].patterns == ["./own/*.md"]
    with pytest.raises(
        NotFoundError, match=r"^knowledge base 'own' belongs to workflow 'triage'; "
    ):
        loaded.knowledge_base("own")
    with pytest.raises(
        NotFoundError, match=r"^there is no workflow 'triag'; did you mean 'triage'"
    ):
        loaded.knowledge_base("docs", "triag")
    with pytest.raises(NotFoundError, match=r"^there is no embedder 'test'; did you mean 'tests'"):
        loaded.embedder("test")


def test_a_project_that_is_not_there(tmp_path):
    """The message gives the folder that was searched and the command that creates a project."""
    assert _problems(tmp_path) == [
        f"lorebind.yaml: there is no project file in {tmp_path}; create one with: lorebind init"
    ]


def test_all_problems_of_all_files_are_raised_at_once(tmp_path):
    """Wrong keys in one file do not hide wrong references in another."""
    _write(
        tmp_path,
        **{
            "lorebind.yaml": PROJECT.replace("embedder: tests", "embedder: test")
            + "knowledge_base: 1\n",
            "agents/critic.yaml": AGENT.replace("top_k: 3", "top_k: 99"),
            "agents/second.yaml": "id: second\nid: third\n",
            "workflows/triage.yaml": WORKFLOW.replace(".tone", ".tune"),
        },
    )
    assert _problems(tmp_path) == [
        "agents/critic.yaml:3:24: top_k is 99; expected 1 to 50",
        "agents/second.yaml:2:1: the key 'id' is written twice; it is first written at "
        "agents/second.yaml:1:1",
        "lorebind.yaml:15:5: knowledge base 'docs' uses unknown embedder 'test'; "
        "did you mean 'tests'; known: default, none, tests",
        "lorebind.yaml:27:1: unknown key 'knowledge_base'; did you mean 'knowledge_bases'; known: "
        "agents, autoload, checkpointer, description, embedders, extensions, ingestion, knowledge, "
        "knowledge_bases, loading, mcp, models, name, server, "
        "sparse_embedders, tenancy, vector_dbs, workflows, wrappers",
        "workflows/triage.yaml:21:5: {{ .workflow.vars.tune }} is not defined: "
        ".workflow.vars has no 'tune'; did you mean 'tone'; known: deep, made, tone",
    ]


def test_references_that_lead_nowhere(tmp_path):
    """References to embedders, databases, models, agents and knowledge bases are checked."""
    project = PROJECT.replace("embedder: tests", "embedder: test").replace(
        "vector_db: file", "vector_db: fil"
    )
    project = project.replace("model: big", "model: bigg").replace(
        "{id: docs, max", "{id: own, max"
    )
    _write(
        tmp_path,
        **{
            "lorebind.yaml": project,
            "agents/critic.yaml": AGENT.replace("id: docs", "id: own"),
            "workflows/triage.yaml": WORKFLOW.replace("agent: critic", "agent: critik").replace(
                "knowledge: [{id: docs,", "knowledge: [{id: dox,"
            ),
        },
    )
    assert _problems(tmp_path) == [
        "agents/critic.yaml:3:14: agent 'critic' binds unknown knowledge base 'own'; known: docs",
        "lorebind.yaml:15:5: knowledge base 'docs' uses unknown embedder 'test'; "
        "did you mean 'tests'; known: default, none, tests",
        "lorebind.yaml:16:5: knowledge base 'docs' uses unknown vector database 'fil'; "
        "did you mean 'file'; known: file",
        "lorebind.yaml:21:6: project 'support' binds unknown knowledge base 'own'; known: docs",
        "lorebind.yaml:25:18: agent 'helper' uses unknown model 'bigg'; "
        "did you mean 'big'; known: big",
        "workflows/triage.yaml:17:5: task 'first' uses unknown agent 'critik'; "
        "did you mean 'critic'; known: critic, helper, local",
        "workflows/triage.yaml:23:18: task 'second' binds unknown knowledge base 'dox'; "
        "known: docs, own",
    ]


def test_an_id_is_used_once(tmp_path):
    """Ids are unique across files; the message gives the first use."""
    _write(
        tmp_path,
        **{
            "agents/critic.yaml": AGENT,
            "agents/zcritic.yaml": "id: critic\nknowledge: [{id: docs}, {id_ref: docs}]\n",
        },
    )
    assert _problems(tmp_path) == [
        "agents/zcritic.yaml:1:1: agent id 'critic' is used twice; it is first used at "
        "agents/critic.yaml:2:1",
        "agents/zcritic.yaml:2:26: binding id 'docs' is used twice; it is first used at "
        "agents/zcritic.yaml:2:14",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'prompt: "{{ .workflow.input.question }}',
            'prompt: "{{ .tasks.second.output }}',
            "18:5: {{ .tasks.second.output }} is not defined: task 'second' cannot come before "
            "'first'; known: none",
        ),
        (
            ".workflow.input.question }} {{",
            ".workflow.input.qestion }} {{",
            "18:5: {{ .workflow.input.qestion }} is not defined: .workflow.input has no "
            "'qestion'; did you mean 'question'; known: lines, question; declare it below input:",
        ),
        (
            'made: "{{ .workflow.input.question }}"',
            'made: "{{ .workflow.vars.tone }}"',
            "6:35: {{ .workflow.vars.tone }} is not defined: .workflow has no 'vars'; known: input",
        ),
        (
            "{{ .tasks.second.output }}",
            "{{ .tasks.second.ouput }}",
            "24:11: {{ .tasks.second.ouput }} is not defined: .tasks.second has no 'ouput'; "
            "did you mean 'output'; known: output",
        ),
        (
            "{{ .env.DATA }}",
            "{{ env.DATA }}",
            "21:5: {{ env.DATA }} is not a template; "
            "write {{ .scope.name }}, for example {{ .env.NAME }}",
        ),
        (
            "{id: own}]}",
            "{id: own, fallback: '{{ .workflow.vars.tone }}'}]}",
            "14:39: fallback takes no templates: {{ .workflow.vars.tone }} would stay as "
            "written; templates can be used in api_key, dsn, config, addresses and paths of "
            "sources, vars, prompt, query, history, input, items, with, update and outputs",
        ),
    ],
)
def test_templates_of_a_workflow_name_what_is_declared(tmp_path, old, new, message):
    """Templates may use inputs, variables and earlier tasks; each fault has its field."""
    assert old in WORKFLOW
    _write(tmp_path, **{"workflows/triage.yaml": WORKFLOW.replace(old, new)})

    assert _problems(tmp_path) == [f"workflows/triage.yaml:{message}"]


def test_variables_that_are_not_set(tmp_path):
    """Each use of an unset variable is reported, as is a scope that is not available."""
    _write(tmp_path, **{"lorebind.yaml": PROJECT.replace("{{ .env.DATA }}", "{{ .input.data }}")})

    assert _problems(tmp_path, {"DATA": "d", "TOKEN": "t"}) == [
        "lorebind.yaml:9:5: variable OPENAI_API_KEY is not set; "
        "set it in the environment or in .env",
        "lorebind.yaml:12:39: {{ .input.data }} is not defined: there is no scope 'input' here; "
        "known: env, secrets",
        "lorebind.yaml:23:47: variable OPENAI_API_KEY is not set; "
        "set it in the environment or in .env",
    ]


def test_autoload_names_files_that_must_be_there(tmp_path):
    """A pattern may match nothing, but a named file must exist. Outside links are refused."""
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.yaml").write_text("id: outside\n")
    (root / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    (root / "lorebind.yaml").write_text(
        SMALLEST + "autoload: {include: ['none/*.yaml', gone.yaml, '*.yaml']}\n"
    )
    assert _problems(root) == [
        "lorebind.yaml:5:37: there is no file 'gone.yaml'",
        "lorebind.yaml:5:48: 'link.yaml' leads out of the project folder",
    ]


def test_a_project_is_built_from_python_objects(tmp_path):
    """A project can be built from mappings and declarations; problems have paths as positions."""
    kb = KnowledgeBaseDeclaration(
        id="docs", sources=[MarkdownGlobSource(type="markdown_glob", path="docs/*.md")]
    )
    data = {"name": "demo", "knowledge_bases": [kb], "workflows": [yaml.safe_load(WORKFLOW)]}
    data["agents"] = ({"id": "critic"},)
    loaded = build_project(data, root=tmp_path, environ=ENVIRON)

    assert loaded.file is None
    assert loaded.knowledge_base("docs")[0] == kb
    assert list(loaded.workflows) == ["triage"]
    with pytest.raises(ConfigurationError) as caught:
        build_project(
            {"name": "demo", "knowledge_bases": [{"id": "a", "sources": [{"type": "x"}]}]},
            root=tmp_path,
        )
    assert str(caught.value) == (
        "<python>: knowledge_bases[0].sources[0].type: source type 'x' is not supported; "
        "known: cloud_storage, file_glob, inline, langchain, markdown_glob, media_transcript, url"
    )


SECRET = "sk-Zq8hidden"


@pytest.mark.parametrize(
    "text",
    [
        "models: [{id: m, provider: openai, model: x, api_key: VALUE}]",
        "models: [{id: m, provider: openai, model: x, api_key: [VALUE]}]",
        "models: [{id: m, provider: openai, model: x, api_key: {VALUE: VALUE}}]",
        "models: [{id: m, provider: openai, model: x, api_key: '{{ VALUE }}'}]",
        "models: [{id: m, provider: openai, model: x, api_key: {{ VALUE }}}]",
        "models: [{id: m, provider: openai, model: x, api_key: 'VALUE{{ .env.X }}'}]",
        "models: [{id: m, provider: openai, model: x, api_key: *VALUE}]",
        "models: [{id: m, provider: openai, model: x, api_key: !VALUE x}]",
        "models: [{id: m, provider: openai, model: x, api_key: 'VALUE}]",
        "models: [{id: m, provider: openai, model: x, config: {password: VALUE}}]",
        "models: [{id: m, provider: openai, model: x, config: {a: [{authToken: VALUE}]}}]",
        "models: [{id: m, provider: openai, model: x, config: {dsn: ['x:VALUE@h']}}]",
        "models: [{id: m, provider: openai, model: x, config: {dsn: '{{VALUE}}@{{ .env.X }}'}}]",
        "models: [{id: m, provider: openai, model: x, config: {'X-Api-Key': VALUE}}]",
        "embedders: [{id: m, provider: langchain, class: 'a:b', api_key: VALUE}]",
        "embedders: [{id: m, provider: local, api_key: VALUE}]",
        "embedders: [{id: m, provider: local, config: {token: VALUE}}]",
    ],
)
def test_no_secret_is_ever_shown(tmp_path, text):
    """A literal secret is refused without being shown, however it is written."""
    (tmp_path / "lorebind.yaml").write_text(f"name: demo\n{text.replace('VALUE', SECRET)}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path, environ={"X": SECRET})

    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert caught.value.problems


def test_a_literal_secret_is_refused_with_the_way_out(tmp_path):
    """The message says what to write instead and where to store the value."""
    (tmp_path / "lorebind.yaml").write_text(
        "name: demo\nmodels:\n- {id: m, provider: openai, model: x, api_key: sk-1}\n"
    )
    assert _problems(tmp_path) == [
        "lorebind.yaml:3:39: api_key holds a literal value; "
        'write api_key: "{{ .env.OPENAI_API_KEY }}" and put the value into the environment or .env'
    ]


def test_a_loaded_project_does_not_show_its_secrets(tmp_path):
    """Declarations keep their templates, so their repr and data contain no values."""
    loaded = load_project(_write(tmp_path), environ=ENVIRON)

    assert "hidden" not in repr(loaded) + str(loaded.project.model_dump())


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 2030, "a\0b", "\ud800", "loop"])
def test_names_that_no_file_can_have(tmp_path, name):
    """A file name that is too long or invalid, or a link to itself, is a problem."""
    name += ".yaml"
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    data = yaml.safe_load(SMALLEST)
    data |= {"autoload": {"include": [name]}, "workflows": [{"source": name}]}
    data["knowledge"] = [{"id": "docs", "render": name}]
    with pytest.raises(ConfigurationError) as caught:
        build_project(data, root=tmp_path)
    messages = [problem.message for problem in caught.value.problems]
    assert messages.count(f"there is no file {name!r}") >= 2
    assert [message for message in messages if repr(name) not in message] == []
    assert len(messages) == 3


def test_a_file_without_resource_is_read_as_an_agent(tmp_path):
    """If that fails, the file gets a problem that says so; a valid agent needs no `resource`."""
    (tmp_path / "lorebind.yaml").write_text(SMALLEST + "autoload: {include: ['parts/*.yaml']}\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/a.yaml").write_text("id: clerk\n")
    assert load_project(tmp_path, environ=ENVIRON).agents.keys() == {"clerk"}
    (tmp_path / "parts/b.yaml").write_text("id: mine\nprovider: hashing\n")
    first, second = _problems(tmp_path)
    assert first == (
        "parts/b.yaml:1:1: the file is read as an agent, because it has no key 'resource'; write "
        "resource: and one of: agent, workflow, embedder, "
        "sparse_embedder, vector_db, knowledge_base"
    )
    assert second.startswith("parts/b.yaml:2:1: unknown key 'provider'")
