"""All problems of all files are reported together, each once and without its consequences."""

import random
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project
from tests.density import examples

from .mistaken_project import ENVIRON, FILES, Mistake, mistaken
from .mistakes import MISTAKES

PAIRS = [pair for pair in combinations(MISTAKES, 2) if pair[0].independent_of(pair[1])]


def _problems(root, files):
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        load_project(root, environ=ENVIRON, need_variables=True)
    except ConfigurationError as error:
        return error.problems or ["refused, and no reason given"]
    return []


def _lines(root, files):
    return [str(problem) for problem in _problems(root, files)]


def test_the_project_without_mistakes_is_valid(tmp_path):
    """The project that the mistakes are put into is valid."""
    assert _lines(tmp_path, FILES) == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.kind)
def test_one_mistake_is_one_problem(tmp_path, mistake: Mistake):
    """Each kind of mistake has its message and causes no other problem."""
    lines = _lines(tmp_path, mistaken(mistake))

    assert lines == [mistake.problem]
    assert "Zq8hidden" not in lines[0]


@settings(
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pair=st.sampled_from(PAIRS))
def test_two_mistakes_are_two_problems(tmp_path, pair):
    """Two mistakes, wherever they are, are both reported, and nothing else is."""
    problems = _problems(tmp_path, mistaken(*pair))

    assert sorted(problem.message for problem in problems) == sorted(m.message for m in pair)
    assert problems == sorted(set(problems))


BROKEN = {
    "lorebind.yaml": """\
name: shop
name: again
descripton: What we sell
embedders:
  - id: tests
    provider: hashin
    config: {dimension: 4}
  - id: remote
    provider: langchain
    class: "a:B"
    api_key: sk-Zq8hidden
vector_dbs:
  - {id: file, type: sqlite, config: {path: "{{ .env.NOWHERE }}"}}
  - {id: file, type: memory}
knowledge_bases:
  - id: docs
    embedder: tests
    vector_db: fil
    sources: [{type: ftp}, {type: file_glob, paths: [docs/*, ../x]}]
    chunking: {size: 012}
  - id: a/b
    embedder: remoet
    sources: [{type: file_glob, path: docs/*}]
knowledge: [{id: docs, top_k: 99}, {id: faq}]
agents:
  - {id: helper, model: bigg, instructions: on}
autoload: {include: ["agents/*.yaml", "workflows/*.yaml"]}
""",
    "agents/critic.yaml": "id: critic\nknowledge: [{id: dosc}, 5]\nversion: 1\n",
    "agents/torn.yaml": "id: torn\nknowledge: [\n",
    "workflows/first.yaml": """\
id: first
version: 1.10
input: {on: {}, size: {type: int}}
vars: {day: 2024-01-02, tone: {{ .env.TONE }}}
knowledge_bases:
  - {id: own, embeder: tests, sources: [{type: file_glob, path: own/*}]}
tasks:
  - {id: one, agent: torn, prompt: "{{ .workflow.vars.day.year }} {{ .workflow.input.on }}"}
  - {id: two, agent: critik, prompt: "{{ .tasks.on.output }}", knowledge: [{id: own}, {id: own}]}
  - {agent: critic, query: "{{ .env.MISSING }}"}
outputs: {all: "{{ .tasks.anything.output }}", made: "{{ vars }}"}
""",
    "workflows/second.yaml": """\
id: first
tasks:
  - {id: one, prompt: 5, knowledge: {id: docs}}
  - {id: two, prompt: "{{ .input.x }}", knowledge: [{id: own}]}
""",
}


def test_a_project_with_mistakes_of_all_kinds(tmp_path):
    """All mistakes are listed by file, line and column."""
    assert _lines(tmp_path, BROKEN) == [
        "agents/critic.yaml:2:14: agent 'critic' binds unknown knowledge base 'dosc'; "
        "did you mean 'docs'; known: a/b, docs",
        "agents/critic.yaml:2:25: knowledge[1]: expected a mapping, got the number 5",
        "agents/critic.yaml:3:1: unknown key 'version'; known: description, id, "
        "instructions, knowledge, max_iterations, model, output_schema, read_tools, "
        "resource, tools",
        "agents/torn.yaml:3:1: this is not YAML: expected the node content, but found "
        "'<stream end>'",
        "lorebind.yaml:2:1: the key 'name' is written twice; it is first written at "
        "lorebind.yaml:1:1",
        "lorebind.yaml:3:1: unknown key 'descripton'; did you mean 'description'; "
        "known: agents, autoload, checkpointer, description, embedders, extensions, "
        "ingestion, knowledge, "
        "knowledge_bases, loading, mcp, models, name, server, "
        "sparse_embedders, tenancy, vector_dbs, workflows, "
        "wrappers",
        "lorebind.yaml:6:5: embedder provider 'hashin' is not supported; did you mean "
        "'hashing'; known: fastembed, hashing, langchain, local, none, openai",
        "lorebind.yaml:7:14: dimension is 4; expected 8 to 8192",
        'lorebind.yaml:11:5: api_key holds a literal value; write api_key: "{{ '
        '.env.API_KEY }}" and put the value into the environment or .env',
        "lorebind.yaml:13:39: variable NOWHERE is not set; set it in the environment or in .env",
        "lorebind.yaml:14:6: vector database id 'file' is used twice; it is first used at "
        "lorebind.yaml:13:6",
        "lorebind.yaml:18:5: knowledge base 'docs' uses unknown vector database 'fil'; "
        "did you mean 'file'; known: file",
        "lorebind.yaml:19:16: source type 'ftp' is not supported; known: "
        "cloud_storage, file_glob, inline, langchain, markdown_glob, media_transcript, url",
        "lorebind.yaml:19:62: '../x' leaves the project folder; write a path relative "
        "to the project folder, without '..'",
        "lorebind.yaml:20:22: YAML reads 012 as the number 10; write 10, or quote it to make it "
        'text: "012"',
        "lorebind.yaml:21:5: 'a/b' cannot be an id; an id starts with a letter or "
        "digit, followed by letters, digits, '_', '.' or '-'",
        "lorebind.yaml:22:5: knowledge base 'a/b' uses unknown embedder 'remoet'; did "
        "you mean 'remote'; known: none, remote, tests",
        "lorebind.yaml:24:24: top_k is 99; expected 1 to 50",
        "lorebind.yaml:24:37: the project binds unknown knowledge base 'faq'; known: a/b, docs",
        "lorebind.yaml:26:18: agent 'helper' uses unknown model 'bigg'; known: default",
        "lorebind.yaml:26:31: instructions: expected text, got the boolean on; YAML reads the "
        'unquoted word on as a boolean; quote it: "on"',
        "workflows/first.yaml:2:1: version: expected text, got the number 1.10; YAML "
        'reads 1.10 as the number 1.1; quote it: "1.10"',
        'workflows/first.yaml:3:9: YAML reads the key on as a boolean; quote it: "on"',
        "workflows/first.yaml:3:24: type 'int' is not supported; did you mean "
        "'integer'; known: array, boolean, integer, number, object, string",
        "workflows/first.yaml:4:8: expected text, a number, a boolean, a list or a mapping, got "
        "a date; quote it to make it text",
        "workflows/first.yaml:4:31: YAML reads {{ … }} without quotes as a mapping; "
        'put quotes around it: "{{ .env.NAME }}"',
        "workflows/first.yaml:6:15: unknown key 'embeder'; did you mean 'embedder'; "
        "known: chunking, description, embedder, id, ingest, keep, language, metadata, "
        "preprocess, retrieval, sources, sparse, tool_filters, vector_db, weak_below",
        "workflows/first.yaml:9:15: task 'two' uses unknown agent 'critik'; did you "
        "mean 'critic'; known: critic, helper, torn",
        "workflows/first.yaml:9:30: {{ .tasks.on.output }} is not defined: .tasks has "
        "no 'on'; did you mean 'one'; known: one",
        "workflows/first.yaml:9:88: binding id 'own' is used twice; it is first used at "
        "workflows/first.yaml:9:77",
        "workflows/first.yaml:10:5: missing key 'id'",
        "workflows/first.yaml:10:5: missing key 'prompt'",
        "workflows/first.yaml:10:21: variable MISSING is not set; set it in the "
        "environment or in .env",
        "workflows/first.yaml:11:48: {{ vars }} is not a template; write {{ "
        ".scope.name }}, for example {{ .env.NAME }}",
        "workflows/second.yaml:1:1: workflow id 'first' is used twice; it is first used at "
        "workflows/first.yaml:1:1",
        'workflows/second.yaml:3:15: prompt: expected text, got the number 5; quote it: "5"',
        "workflows/second.yaml:3:26: knowledge: expected a list, got a mapping",
        "workflows/second.yaml:4:15: {{ .input.x }} is not defined: .input has no 'x'; known: "
        "none; declare it below input:",
        "workflows/second.yaml:4:54: task 'two' binds unknown knowledge base 'own'; "
        "known: a/b, docs",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        (
            "lorebind.yaml",
            "    provider: hashing\n    config: {dimension: 64}\n",
            "    provider: 5\n    config: {dimension: 64}\n",
            'lorebind.yaml:5:5: provider: expected text, got the number 5; quote it: "5"',
        ),
        (
            "lorebind.yaml",
            "knowledge_bases:",
            "knowledge_base:",
            "lorebind.yaml:17:1: unknown key 'knowledge_base'; did you mean "
            "'knowledge_bases'; known: agents, autoload, checkpointer, description, embedders, "
            "extensions, ingestion, knowledge, knowledge_bases, loading, mcp, models, name, "
            "server, "
            "sparse_embedders, tenancy, "
            "vector_dbs, workflows, wrappers",
        ),
        (
            "lorebind.yaml",
            "autoload:",
            "autolaod:",
            "lorebind.yaml:45:1: unknown key 'autolaod'; did you mean 'autoload'; known: "
            "agents, autoload, checkpointer, description, embedders, extensions, ingestion, "
            "knowledge, "
            "knowledge_bases, loading, mcp, models, name, server, "
            "sparse_embedders, tenancy, vector_dbs, workflows, "
            "wrappers",
        ),
        (
            "lorebind.yaml",
            "autoload:",
            "autoload:\n  exclude: [5]",
            'lorebind.yaml:46:13: exclude[0]: expected text, got the number 5; quote it: "5"',
        ),
        (
            "lorebind.yaml",
            "  - id: tests",
            "  - id: 012",
            "lorebind.yaml:4:9: YAML reads 012 as the number 10; write 10, or quote it to make "
            'it text: "012"',
        ),
        (
            "lorebind.yaml",
            "- id: docs\n    description",
            "- id: [docs]\n    description",
            "lorebind.yaml:18:5: id: expected text, got a list",
        ),
        (
            "lorebind.yaml",
            "  - {id: scratch, type: memory}",
            "  - scratch",
            "lorebind.yaml:16:5: vector_dbs[1]: expected a mapping, got the text 'scratch'",
        ),
        (
            "agents/critic.yaml",
            "resource: agent",
            "resource: agnet",
            "agents/critic.yaml:1:1: resource 'agnet' is not supported; did you mean "
            "'agent'; known: agent",
        ),
        (
            "agents/critic.yaml",
            "id: critic",
            "id: critic\nid: critics",
            "agents/critic.yaml:3:1: the key 'id' is written twice; it is first written at "
            "agents/critic.yaml:2:1",
        ),
        (
            "agents/critic.yaml",
            "knowledge:\n",
            "knowledge: [\n",
            "agents/critic.yaml:5:3: this is not YAML: expected the node content, but found '-'",
        ),
        (
            "workflows/triage.yaml",
            "tasks:",
            "task:",
            "workflows/triage.yaml:14:1: unknown key 'task'; did you mean 'tasks'; known: "
            "agents, channels, checkpointer, description, id, input, knowledge, knowledge_bases, "
            "max_steps, outputs, resource, tasks, vars, version",
        ),
        (
            "workflows/triage.yaml",
            "input:",
            "inputs:",
            "workflows/triage.yaml:3:1: unknown key 'inputs'; did you mean 'input'; known: "
            "agents, channels, checkpointer, description, id, input, knowledge, knowledge_bases, "
            "max_steps, outputs, resource, tasks, vars, version",
        ),
        (
            "workflows/triage.yaml",
            "vars:",
            "var:",
            "workflows/triage.yaml:6:1: unknown key 'var'; did you mean 'vars'; known: "
            "agents, channels, checkpointer, description, id, input, knowledge, knowledge_bases, "
            "max_steps, outputs, resource, tasks, vars, version",
        ),
        (
            "workflows/triage.yaml",
            "vars: {",
            "vars: {<<: {tone: 1, tone: 2}, ",
            "workflows/triage.yaml:6:22: the key 'tone' is written twice; it is first written at "
            "workflows/triage.yaml:6:13",
        ),
        (
            "workflows/triage.yaml",
            "  - id: first",
            "  - idd: first",
            "workflows/triage.yaml:15:5: unknown key 'idd'; did you mean 'id'; known: "
            "agent, cache, condition, final, history, id, knowledge, on_error, on_success, prompt, "
            "query, retry, timeout_seconds, type, update",
        ),
        (
            "workflows/triage.yaml",
            "agents:\n  - {id: local",
            "agents:\n  {id: local",
            "workflows/triage.yaml:12:1: agents: expected a list, got a mapping",
        ),
    ],
)
def test_what_is_broken_is_not_missed_elsewhere(tmp_path, name, old, new, problem):
    """An unreadable part may declare anything, so references to it are not reported."""
    text = FILES[name]
    assert text.count(old) == 1
    assert _lines(tmp_path, FILES | {name: text.replace(old, new)}) == [problem]


def test_a_broken_env_file_hides_no_other_problem(tmp_path):
    """A broken `.env` is one problem, and everything that does not need it is still checked."""
    files = mistaken(*(m for m in MISTAKES if m.kind in ("an unknown input", "an unknown scope")))
    files |= {".env": b"\xff", "agents/critic.yaml": "id: critic\nmodel: '{{ .env.UNSET }}'\n"}
    files["workflows/reply.yaml"] = FILES["workflows/reply.yaml"].replace(
        "Write a reply.", "'{{ .env.UNSET }} {{ .env.UNSET }}'"
    )
    assert _lines(tmp_path, files) == [
        ".env:1:1: the file is not UTF-8",
        "agents/critic.yaml:2:1: model takes no templates: {{ .env.UNSET }} would stay as "
        "written; templates can be used in api_key, dsn, config, addresses and paths of sources, "
        "vars, prompt, query, history, input, items, with, update and outputs",
        "lorebind.yaml:15:14: {{ .evn.DATA }} is not defined: there is no scope 'evn' "
        "here; did you mean 'env'; known: env, secrets",
        "workflows/triage.yaml:17:5: {{ .input.line.0 }} is not defined: .input has no "
        "'line'; did you mean 'lines'; known: lines, question; declare it below input:",
    ]


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (b"", ["lorebind.yaml:1:1: the file is empty; write at least a name or an id"]),
        (b"\n\n# x\n", ["lorebind.yaml:1:1: the file is empty; write at least a name or an id"]),
        (b"[]", ["lorebind.yaml:1:1: expected a mapping of keys at the top of the file"]),
        (b"\n word", ["lorebind.yaml:2:2: expected a mapping of keys at the top of the file"]),
        (b"012", ["lorebind.yaml:1:1: expected a mapping of keys at the top of the file"]),
        (b"{}", ["lorebind.yaml:1:1: missing key 'name'"]),
        (b"name: a\0b", ["lorebind.yaml:1:8: there is a control character here; remove it"]),
        (
            b"name: demo\nmodels:\n\t- id: m",
            [
                "lorebind.yaml:3:1: this is not YAML: found character that cannot start any token; "
                "indent with spaces, not with tabs"
            ],
        ),
        (
            "name: demo".encode("utf-16"),
            ["lorebind.yaml:1:1: the file is not UTF-8; save it as UTF-8"],
        ),
        (b"\xef\xbb\xbfname: demo", []),
        (
            b"\xef\xbb\xbfnam: demo\r\ndescription: on\r\n",
            [
                "lorebind.yaml:1:1: unknown key 'nam'; did you mean 'name'; known: agents, "
                "autoload, checkpointer, description, embedders, extensions, ingestion, knowledge, "
                "knowledge_bases, loading, mcp, models, name, server, "
                "sparse_embedders, tenancy, vector_dbs, workflows, "
                "wrappers",
                "lorebind.yaml:2:1: description: expected text, got the boolean on; YAML reads "
                'the unquoted word on as a boolean; quote it: "on"',
            ],
        ),
        (b"# " + b"x" * 2**20 + b"\nname: demo\n", []),
        (
            b"name: demo\ndescription: " + b"x" * 2**20 + b"\nzzz: 1\n",
            [
                "lorebind.yaml:3:1: unknown key 'zzz'; known: agents, autoload, "
                "checkpointer, description, embedders, extensions, ingestion, knowledge, "
                "knowledge_bases, "
                "loading, mcp, models, name, server, sparse_embedders, tenancy, vector_dbs, "
                "workflows, "
                "wrappers",
            ],
        ),
        (
            b"name: demo\nzzz: " + b"x" * 2**20,
            [
                "lorebind.yaml:2:1: unknown key 'zzz'; known: agents, autoload, "
                "checkpointer, description, embedders, extensions, ingestion, knowledge, "
                "knowledge_bases, "
                "loading, mcp, models, name, server, sparse_embedders, tenancy, vector_dbs, "
                "workflows, "
                "wrappers",
            ],
        ),
        (
            b"name: demo\n" + b"x" * 2**20,
            [
                "lorebind.yaml:2:1048577: this is not YAML: could not find expected ':'",
            ],
        ),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, bytes) else "",
)
def test_odd_project_files(tmp_path, content, problems):
    """Any bytes are either read, or refused with a position and a short message."""
    assert _lines(tmp_path, {"lorebind.yaml": content}) == problems


SMALL = {
    "lorebind.yaml": """\
name: demo
embedders: [{id: e, provider: hashing, config: {dimension: 64}}]
knowledge_bases:
  - {id: docs, embedder: e, sources: [{type: file_glob, path: docs/*}], chunking: {size: 99}}
models: [{id: m, provider: openai, model: x, api_key: "{{ .env.TOKEN }}", config: {a: [1]}}]
autoload: {include: [w.yaml]}
""",
    "w.yaml": """\
id: w
input: {q: {type: string}}
vars: {v: 1}
agents: [{id: a, model: m, knowledge: [{id_ref: docs, retrieval: {top_k: 2}}]}]
tasks: [{id: t, agent: a, prompt: "{{ .input.q }}"}, {id: u, prompt: "{{ .tasks.t.output }}"}]
""",
}
PIECES = (
    *("{{ .env.X }}", "'{{ .input.q }}'", "{{", "}}", "[", "]", "{", "}", ": ", "- ", ", ", "\n"),
    *("&a ", "*a", "<<: ", "? ", "!!set ", "!x ", "'", '"', "#", "|\n", "---\n", "\t", "\r\n"),
    *("null", "~", "on", "012", "1:30", "1e9", ".nan", "2001-01-01", "0x1", "id", "a/b", "é", "\0"),
    *("id: ", "type: ", "provider: ", "tasks: ", "retrieval: ", "config: ", "\ufeff", "\ud800"),
)


def test_mutated_files_never_fail_without_a_place(tmp_path):
    """Each of many broken files is a valid project or has problems with line and column."""
    chance = random.Random(11)
    for _ in range(examples(2000)):
        name = chance.choice(sorted(SMALL))
        text = SMALL[name]
        for _ in range(chance.randint(1, 3)):
            at, gone = chance.randrange(len(text) + 1), chance.choice((0, 0, 1, 3, 9))
            text = text[:at] + chance.choice(PIECES) + text[at + gone :]
        for problem in _problems(tmp_path, SMALL | {name: text}):
            assert problem.file in SMALL, text
            assert problem.line >= 1, text
            assert problem.column >= 1, text
            assert problem.message, text
            assert "object object" not in str(problem), text
