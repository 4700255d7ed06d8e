"""The declarations: what is refused, with which message, and at which position."""

import pytest
from pydantic import ValidationError

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.bindings import BindingBase, BindingDeclaration
from lorebind_config.declarations.models import ModelDeclaration
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.declarations.tasks import BasicTask, TaskBase
from lorebind_config.declarations.workflows import InputDeclaration
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project
from lorebind_knowledge.chunking.strategies import ChunkingDeclaration

SOURCES = "sources: [{type: markdown_glob, path: 'docs/*.md'}]"


def _problems(tmp_path, text):
    (tmp_path / "lorebind.yaml").write_text("name: demo\n" + text)
    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path, environ={})
    return [str(problem).removeprefix("lorebind.yaml:") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "knowledge_base: []",
            "2:1: unknown key 'knowledge_base'; did you mean 'knowledge_bases'; known: agents, "
            "autoload, checkpointer, description, embedders, extensions, ingestion, knowledge, "
            "knowledge_bases, loading, mcp, models, name, server, "
            "sparse_embedders, tenancy, vector_dbs, workflows, "
            "wrappers",
        ),
        (
            "embedders: [{id: a, provider: locl}]",
            "2:21: embedder provider 'locl' is not supported; did you mean 'local'; "
            "known: fastembed, hashing, langchain, local, none, openai",
        ),
        (
            "embedders: [{id: a, provider: [x]}]",
            "2:21: provider: expected text, got a list",
        ),
        (
            "wrappers: [3]",
            "2:12: wrappers[0]: expected a mapping, got the number 3",
        ),
        (
            "embedders: [{id: a}]",
            "2:13: missing key 'provider'; known: fastembed, hashing, langchain, local, none, "
            "openai",
        ),
        (
            "embedders: [{id: a, provider: hashing, config: {dimension: 4}}]",
            "2:49: dimension is 4; expected 8 to 8192",
        ),
        (
            "embedders: [{id: a, provider: local, config: {dimension: 4}}]",
            "2:47: unknown key 'dimension'; known: batch_size, model_path, threads",
        ),
        (
            "embedders: [{id: a, provider: local, config: {threads: '5'}}]",
            "2:47: threads: expected an integer, got the text '5'; write it without quotes",
        ),
        (
            "embedders: [{id: a, provider: langchain, class: NoColon}]",
            "2:42: 'NoColon' is not of the form 'package.module:Class'",
        ),
        ("embedders: [a]", "2:13: embedders[0]: expected a mapping, got the text 'a'"),
        (
            "agents:",
            "2:1: agents: expected a list, got nothing; write a value or remove the key",
        ),
        (
            "description: 1.10",
            "2:1: description: expected text, got the number 1.10; "
            'YAML reads 1.10 as the number 1.1; quote it: "1.10"',
        ),
        (
            "description: on",
            "2:1: description: expected text, got the boolean on; YAML reads the unquoted word "
            'on as a boolean; quote it: "on"',
        ),
        (
            "description: 2024-01-02",
            '2:1: description: expected text, got a date; quote it: "2024-01-02"',
        ),
        (
            "knowledge_bases: [{id: a, sources: [{type: file_glob}]}]",
            "2:37: the source names no files; write 'path' or 'paths'",
        ),
        (
            "knowledge_bases: [{id: a, sources: [{type: file_glob, paths: [a, ../b]}]}]",
            "2:66: '../b' leaves the project folder; "
            "write a path relative to the project folder, without '..'",
        ),
        (
            f"knowledge_bases: [{{id: a, sources: [{{type: file_glob, path: '{'{a,b}' * 9}'}}]}}]",
            "2:55: the braces of '{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}' expand to more "
            "than 256 patterns; write '*' for a part that can be anything, or write several "
            "patterns",
        ),
        (
            "knowledge_bases: [{id: a, sources: [{type: cloud_storage, provider: memory, bucket: b,"
            " pattern: '{1..1000000}{{a,b},{c,d}}'}]}]",
            "2:88: the braces of '{1..1000000}{{a,b},{c,d}}' expand to more than 256 patterns; "
            "write '*' for a part that can be anything, or write several patterns",
        ),
        (
            f"autoload: {{include: ['{'{a,' * 65}']}}",
            f"2:22: '{'{a,' * 20}...' contains '{{' more than 64 times; write several patterns",
        ),
        (
            "autoload: {include: [a], exclude: ['**/a/**/b/**/c/**/d/*{*,x}/e']}",
            "2:36: '**/a/**/b/**/c/**/d/*{*,x}/e' contains '**' more than 4 times; "
            "name the folders, or write '*' for a single folder",
        ),
        (
            f"autoload: {{include: ['{'a' * 5000}']}}",
            f"2:22: the pattern '{'a' * 60}...' is longer than 4096 characters; "
            "write several patterns",
        ),
        (
            "autoload: {include: [/etc/*.yaml]}",
            "2:22: '/etc/*.yaml' leaves the project folder; "
            "write a path relative to the project folder, without '..'",
        ),
        (
            f"knowledge_bases: [{{id: a b, {SOURCES}}}]",
            "2:20: 'a b' cannot be an id; an id starts with a letter or digit, followed by "
            "letters, digits, '_', '.' or '-'",
        ),
        (
            f"knowledge_bases:\n- id: a\n  {SOURCES}\n  retrieval: {{top_k: 0}}",
            "5:15: top_k is 0; expected 1 to 50",
        ),
        (
            f"knowledge_bases:\n- id: a\n  {SOURCES}\n  retrieval: {{min_score: 1.5}}",
            "5:15: min_score is 1.5; expected 0 to 1",
        ),
        (
            f"knowledge_bases:\n- id: a\n  {SOURCES}\n  chunking: {{size: 100, overlap: 100}}",
            "5:25: overlap is 100; expected 0 to 99, less than the size of 100",
        ),
        (
            f"knowledge_bases:\n- id: a\n  {SOURCES}\n  metadata: {{x: {{y: 1}}}}",
            "5:14: metadata values are text, numbers, booleans, or lists of these",
        ),
        (
            "models: [{id: m, provider: openai}]",
            "2:10: missing key 'model'; provider 'openai' needs the name of one of its models",
        ),
        (
            f"knowledge: [{{id: a, id_ref: a}}]\nknowledge_bases: [{{id: a, {SOURCES}}}]",
            "2:21: id and id_ref mean the same; keep one of them",
        ),
        (
            "knowledge: [{id_ref: a, top_k: 5, retrieval: {top_k: 5}}]\n"
            f"knowledge_bases: [{{id: a, {SOURCES}}}]",
            "2:47: top_k is set twice: here and next to 'retrieval'; keep one of them",
        ),
        (
            "knowledge: [{id: a, filters: {n: {$above: 1}}}]\n"
            f"knowledge_bases: [{{id: a, {SOURCES}}}]",
            "2:35: the filter on 'n': unknown operator '$above'; known: $and, $eq, $exists, $gt, "
            "$gte, $in, $lt, $lte, $ne, $newer_than, $nin, $not, $older_than, $or",
        ),
        (
            "knowledge: [{id_ref: 3}]",
            '2:14: id_ref: expected text, got the number 3; quote it: "3"',
        ),
        (
            "workflows: [{id: w, tasks: [{id: t, type: bsic, prompt: p}]}]",
            "2:37: task type 'bsic' is not supported; did you mean 'basic'; "
            "known: aggregate, basic, collection, composite, parallel, python, router, wait",
        ),
        (
            "workflows: [{id: w, tasks: [{id: t, prompt: p}], input: {a b: {}}}]",
            "2:58: 'a b' cannot be an id; an id starts with a letter or digit, followed by "
            "letters, digits, '_', '.' or '-'",
        ),
        (
            "workflows: [{id: w, tasks: [{id: t, prompt: p}], "
            "input: {n: {type: integer, default: x}}}]",
            "2:77: the default is not of type integer",
        ),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    """One fault gives one message, at the faulty key."""
    assert _problems(tmp_path, text) == [message]


def test_whole_numbers_are_numbers_and_words_are_not():
    """Strict validation accepts an integer as a number, but makes no other conversion."""
    assert RetrievalDeclaration(min_score=1).min_score == 1.0
    assert RetrievalDeclaration(min_score=0).min_score == 0.0
    for wrong in [{"top_k": "5"}, {"top_k": True}, {"min_score": True}, {"top_k": 5.0}]:
        with pytest.raises(ValidationError):
            RetrievalDeclaration.model_validate(wrong)


def test_the_overlap_fits_a_size_that_is_given_alone():
    """The default overlap is 120 characters, or an eighth of a size that is too small for it."""
    assert ChunkingDeclaration().overlap == 120
    assert ChunkingDeclaration(size=121).overlap == 120
    assert ChunkingDeclaration(size=120).overlap == 15
    assert ChunkingDeclaration(size=64, overlap=0).overlap == 0


def test_a_binding_overrides_every_field_of_retrieval():
    """A binding has the fields of `retrieval`, and each can be null."""
    for name in RetrievalDeclaration.model_fields:
        binding = BindingDeclaration.model_validate({"id": "a", name: None})
        assert binding.overrides() == {name: None}
    with pytest.raises(ValidationError):
        BindingDeclaration.model_validate({"id": "a", "top_k": 51})


def test_overrides_are_what_was_written_and_know_where(tmp_path):
    """Direct and nested overrides are merged, each with its own position."""
    (tmp_path / "lorebind.yaml").write_text(
        f"name: demo\nknowledge_bases: [{{id: a, {SOURCES}}}]\n"
        "knowledge:\n  - id_ref: a\n    min_score: null\n    retrieval:\n      top_k: 3\n"
    )
    (binding,) = load_project(tmp_path).project.knowledge

    assert binding.overrides() == {"top_k": 3, "min_score": None}
    assert str(binding.override_position("top_k")) == "lorebind.yaml:7:7"
    assert str(binding.override_position("min_score")) == "lorebind.yaml:5:5"
    assert str(binding.override_position("fallback")) == "lorebind.yaml:4:5"
    assert str(binding.position("id")) == "lorebind.yaml:4:5"


def test_a_declaration_from_python_has_no_place():
    """A declaration from Python has no position, and equals the same declaration from a file."""
    task = BasicTask(id="t", prompt="p")

    assert str(task.position("prompt")) == "<python>:0:0"
    assert task == BasicTask(id="t", prompt="p", type="basic")


def test_declarations_do_not_change():
    """Declarations are frozen."""
    with pytest.raises(ValidationError):
        ChunkingDeclaration().size = 100  # type: ignore[misc]  # that it is refused is the point


def test_pydantic_does_not_repeat_a_secret():
    """A literal secret given in Python is refused without being shown."""
    with pytest.raises(ValidationError) as caught:
        ModelDeclaration(id="m", provider="openai", model="x", api_key="sk-hidden")
    assert "sk-hidden" not in str(caught.value)
    assert "api_key holds a literal value" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "accepted"),
    [
        ("integer", 1, True),
        ("integer", True, False),
        ("number", 1, True),
        ("boolean", False, True),
        ("string", 1, False),
        ("object", {}, True),
    ],
)
def test_inputs_accept_their_json_type(kind, value, accepted):
    """A boolean is not a number, and an integer is one."""
    assert InputDeclaration(type=kind).accepts(value) is accepted


def test_every_field_is_described():
    """Every field has a description, for the schema and the reference page."""
    models = [
        model
        for model in [
            *Declaration.__subclasses__(),
            *BindingBase.__subclasses__(),
            *TaskBase.__subclasses__(),
        ]
        if model.__module__.startswith("lorebind_")
    ]
    for model in models:
        assert model.__doc__
        fields = {name for name, info in model.model_fields.items() if not info.description}
        assert fields <= {"method"}, model  # of `condense`, which is written as a word
