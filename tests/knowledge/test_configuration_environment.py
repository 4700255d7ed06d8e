"""Variables are read by name from the process and from `.env`."""

from collections.abc import Mapping

import pytest

from lorebind_config.errors import ConfigurationError
from lorebind_config.templates import Environment, TemplateError


class _Unlisted(Mapping):
    """Variables that can be read by name but not listed."""

    def __init__(self, **values):
        self.values_, self.names = values, []

    def __getitem__(self, name):
        self.names.append(name)
        return self.values_[name]

    def __iter__(self):
        raise AssertionError("the variables of the process were listed")

    __len__ = __iter__


def test_a_process_variable_wins_over_the_file(tmp_path):
    """`.env` provides variables that the process does not set, and expands nothing."""
    (tmp_path / ".env").write_text("A=file\nB=$HOME/x\nC\n")
    environment = Environment(tmp_path, {"A": "process"})

    assert environment.lookup("A") == "process"
    assert environment.lookup("B") == "$HOME/x"
    assert environment.lookup("C") is None
    assert environment.fill({"x": ["{{ .env.A }}", "{{ .secrets.B }}"]}) == {
        "x": ["process", "$HOME/x"]
    }


def test_only_named_variables_are_looked_up(tmp_path):
    """Variables of the process are read by name and never listed, not even for a hint."""
    variables = _Unlisted(A="a", OPENAI_API_KEX="hidden")
    environment = Environment(tmp_path, variables)

    assert environment.fill("{{ .env.A }}") == "a"
    with pytest.raises(TemplateError) as caught:
        environment.fill("{{ .env.OPENAI_API_KEY }}")

    assert variables.names == ["A", "OPENAI_API_KEY"]
    assert str(caught.value) == (
        "variable OPENAI_API_KEY is not set; set it in the environment or in .env"
    )


def test_a_near_name_of_the_file_is_suggested(tmp_path):
    """Names in `.env` may be shown, but not their values."""
    (tmp_path / ".env").write_text("OPENAI_KEY=sk-hidden\n")

    with pytest.raises(TemplateError) as caught:
        Environment(tmp_path, {}).fill("{{ .env.OPENAI_KEYS }}")

    assert str(caught.value) == (
        "variable OPENAI_KEYS is not set; "
        "did you mean 'OPENAI_KEY'; set it in the environment or in .env"
    )


def test_the_whole_environment_cannot_be_put_into_a_text(tmp_path):
    """`{{ .env }}` without a name is an error."""
    with pytest.raises(TemplateError, match=r"^\{\{ \.env \}\} does not name a variable; write"):
        Environment(tmp_path, {"A": "a"}).fill("all: {{ .env }}")


def test_the_file_is_read_at_the_first_look_up(tmp_path):
    """Creating an environment opens no file, and its repr shows no values."""
    environment = Environment(tmp_path, {"A": "hidden-a"})
    (tmp_path / ".env").write_text("B=hidden-b\n")

    assert environment.lookup("B") == "hidden-b"
    assert "hidden" not in repr(environment) + repr(environment.scopes())


def test_a_file_that_is_not_utf8_is_a_problem(tmp_path):
    """The message names the file and shows none of its content."""
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe\n")

    with pytest.raises(ConfigurationError) as caught:
        Environment(tmp_path, {}).lookup("A")
    assert str(caught.value) == ".env:1:1: the file is not UTF-8"
