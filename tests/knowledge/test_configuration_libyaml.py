"""libyaml and PyYAML's own scanner read texts alike, and report the same problems."""

import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.yaml_source import YamlSource, libyaml_loader
from tests.density import examples

from .mistaken_project import FILES

TOKENS = re.compile(r"\s+|\w+|.")
PIECES = st.sampled_from(
    [token for text in FILES.values() for token in TOKENS.findall(text)]
    + [*"-?:,[]{}#&*!|>'\"%@`=~\\\t\x85\ufeff\u2028", "\r", "\r\n", "\n\n", "--- ", "\n---\n"]
    + ["? ", "\n- ", "\n  ", " #", "<<: ", "*a", "&a ", "!x ", "!!str ", "|\n", ">-\n", "|+2\n"]
    + ["{{ x }}", "012", "12:30", "on", "größer", "𝄞", "\xa0", '"\\x41"', "%YAML 1.2\n", "x" * 1030]
)


def _read(text):
    try:
        source = YamlSource.parse(text, "file.yaml")
    except ConfigurationError as error:
        return error.problems
    return repr(source.data), source.marks, source.problems, source.doubtful


@st.composite
def texts(draw):
    """Generate a part of a file with some pieces inserted and removed."""
    tokens = TOKENS.findall(draw(st.sampled_from(sorted(FILES.values()))))
    start = draw(st.integers(0, len(tokens)))
    tokens = tokens[start : start + draw(st.integers(0, 60))]
    for place in draw(st.lists(st.integers(0, 60), max_size=6)):
        tokens[place : place + draw(st.integers(0, 2))] = draw(st.lists(PIECES, max_size=2))
    return "".join(tokens)


@settings(max_examples=examples(300))
@given(text=texts())
@example(text="a: [b?]")
@example(text="? a\n")
@example(text="a: |#\n  b")
@example(text="a: b\tc")
@example(text="a: [b,\tc]")
@example(text="a: {<<: }")
@example(text="%YAML 1.2#\n---\na: b")
@example(text="{!!str, a: b}")
@example(text="---")
@example(text="a: [")
def test_both_read_alike(text):
    """Values, positions, raw scalars and problems are the same with either reader."""
    outcome = _read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", False)
        assert _read(text) == outcome


@pytest.mark.parametrize("name", FILES)
def test_projects_are_read_by_libyaml(name):
    """The files of a project that uses every feature are read by libyaml."""
    assert issubclass(libyaml_loader(FILES[name]), yaml.CSafeLoader)
