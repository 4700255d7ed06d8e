"""Templates look up names and run no code; the error names what is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.templates import TemplateError, fill, references

SCOPES = {
    "env": {"HOME": "/home/ann", "EMPTY": ""},
    "tasks": {"a": {"output": ["first", {"x": 1}]}, "b.c": {"output": "dotted"}},
    "input": {"count": 3, "nothing": None, "flag": True},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ .input.count }}", 3),
        ("{{.input.count}}", 3),
        ("{{ .input.nothing }}", None),
        ("{{ .tasks.a.output }}", ["first", {"x": 1}]),
        ("{{ .tasks.a.output.1.x }}", 1),
        ("{{ .tasks.b.c.output }}", "dotted"),
        ("n={{ .input.count }}, {{ .input.flag }}", "n=3, True"),
        ("<{{ .input.nothing }}>", "<>"),
        ("got {{ .tasks.a.output }}", 'got ["first",{"x":1}]'),
        ("plain { braces } and }}", "plain { braces } and }}"),
    ],
)
def test_what_a_template_becomes(text, value):
    """A single template becomes the value itself; in a longer text, it becomes text."""
    assert fill(text, SCOPES) == value


def test_resolving_goes_through_mappings_and_lists():
    """Texts are filled at any depth; keys and other values stay as they are."""
    value = {"a": ["{{ .env.HOME }}", 1, None], "{{ .env.HOME }}": {"b": "x{{ .input.count }}"}}

    assert fill(value, SCOPES) == {
        "a": ["/home/ann", 1, None],
        "{{ .env.HOME }}": {"b": "x3"},
    }


def test_what_is_put_in_is_not_looked_at_again():
    """An inserted value that looks like a template stays as it is."""
    assert fill("{{ .a.b }}!", {"a": {"b": "{{ .a.b }}"}}) == "{{ .a.b }}!"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{{ .input.cuont }}",
            "{{ .input.cuont }} is not defined: .input has no 'cuont'; "
            "did you mean 'count'; known: count, flag, nothing",
        ),
        (
            "{{ .evn.HOME }}",
            "{{ .evn.HOME }} is not defined: there is no scope 'evn' here; "
            "did you mean 'env'; known: env, input, tasks",
        ),
        (
            "{{ .tasks.a.output.2 }}",
            "{{ .tasks.a.output.2 }} is not defined: .tasks.a.output is a list of 2 without '2'",
        ),
        (
            "{{ .input.count.real }}",
            "{{ .input.count.real }} is not defined: .input.count is of type int and has no 'real'",
        ),
        (
            "{{ foo }}",
            "{{ foo }} is not a template; write {{ .scope.name }}, for example {{ .env.NAME }}",
        ),
        (
            "{{ .env. }}",
            "{{ .env. }} is not a template; write {{ .scope.name }}, for example {{ .env.NAME }}",
        ),
        ("a {{ .env.X", "a template is opened by '{{' but not closed; end it with '}}'"),
    ],
)
def test_undefined_and_malformed_templates_say_what_is_wrong(text, message):
    """The error contains the whole reference, the part that was found, and the known names."""
    with pytest.raises(TemplateError) as caught:
        fill(text, SCOPES)
    assert str(caught.value) == message


def test_references_come_in_order():
    """References are returned in order, including repeated ones."""
    assert references("{{ .env.A }} and {{ .tasks.x-1.output }}") == [
        ("env", "A"),
        ("tasks", "x-1", "output"),
    ]


@given(st.text().filter(lambda text: "{{" not in text))
def test_a_text_without_templates_is_unchanged(text):
    """Text without '{{' stays as it is."""
    assert fill(text, {}) == text
    assert references(text) == []


class _Trap:
    """Raises if code reads an attribute of it or calls it."""

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"the attribute {name} was read")

    def __call__(self):
        raise AssertionError("called")


@given(st.text(alphabet="{}. ab_-01()[]|'\"+*\n", max_size=40))
def test_nothing_but_dotted_paths_is_ever_evaluated(inside):
    """Anything between the braces is a path, an error, or plain text, and is never evaluated."""
    scopes = {"a": {"b": "B"}, "b": _Trap()}
    text = "{{" + inside + "}}"
    try:
        value = fill(text, scopes)
    except TemplateError:
        return
    assert isinstance(value, str | dict | _Trap)
    assert all(reference[0] in scopes for reference in references(text))
