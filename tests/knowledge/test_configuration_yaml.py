"""The YAML reader returns values with their positions, and reports problems with theirs."""

import datetime

import pytest

from lorebind_config.declarations.base import Position
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.yaml_source import YamlSource


def _read(tmp_path, text):
    file = tmp_path / "sub" / "file.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = YamlSource.read(file, tmp_path)
    if source.problems:
        raise ConfigurationError(source.problems)
    return source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: the file is empty; write at least a name or an id"),
        ("# only\n", "1:1: the file is empty; write at least a name or an id"),
        ("- a", "1:1: expected a mapping of keys at the top of the file"),
        ("a: [", "1:5: this is not YAML: expected the node content, but found '<stream end>'"),
        (
            "a: 1\nb: 2\na: 3",
            "3:1: the key 'a' is written twice; it is first written at sub/file.yaml:1:1",
        ),
        (
            "a:\n  key: {{ .env.X }}",
            "2:8: YAML reads {{ … }} without quotes as a mapping; "
            'put quotes around it: "{{ .env.NAME }}"',
        ),
        (
            "a: {{ .env.X }} b",
            "1:17: this is not YAML: expected <block end>, but found '<scalar>'; put quotes "
            "around text that contains {{ … }}",
        ),
        ("on: 1", '1:1: YAML reads the key on as a boolean; quote it: "on"'),
        ("1: 1", '1:1: YAML reads the key 1 as a number; quote it: "1"'),
        ("? [a]\n: 1", "1:3: a key must be text, not a list or a mapping"),
        (
            "a: 1\n---\nb: 1",
            "2:1: a second document starts here; write one per file, or remove the line '---'",
        ),
        (b"a: 1\nb: \xff", "2:1: the file is not UTF-8; save it as UTF-8"),
        ("a: 1\nb: \x01", "2:4: there is a control character here; remove it"),
        ("a: 1\r\r\nb: \x01", "3:4: there is a control character here; remove it"),
        ("a: &a [*a]", "1:4: an alias refers to a value that contains it"),
        ("a: &a\n  <<: *a", "1:4: an alias refers to a value that contains it"),
        (
            "a: !!python/name:os.system x",
            "1:4: YAML tags are not supported; quote it to make it text",
        ),
        (
            "a: 2001-99-99",
            "1:4: this cannot be read as the YAML type timestamp; quote it to make it text",
        ),
        ("a: " + "[" * 100 + "]" * 100, "1:63: nested more than 60 levels deep"),
        ("a: " + "[" * 9000, "1:1: the file is nested too deeply"),
        ("a: *secretword", "1:4: this is not YAML: found undefined alias"),
    ],
)
def test_what_cannot_be_read(tmp_path, text, message):
    """Each fault has a line and a column, and a suggested fix if there is one."""
    with pytest.raises(ConfigurationError) as caught:
        _read(tmp_path, text)
    assert str(caught.value) == f"sub/file.yaml:{message}"


def test_aliases_that_multiply_are_refused(tmp_path):
    """Aliases in a small file cannot exhaust the memory, nor can nested merges."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(ConfigurationError, match="aliases repeat more than 10000 values"):
        _read(tmp_path, "\n".join(lines))

    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 30)]
    assert _read(tmp_path, "\n".join(lines)).data["a29"] == {"x": 1}


def test_anchors_aliases_and_merges_are_read(tmp_path):
    """Aliases and merges work as usual; a mapping's own keys override merged ones."""
    source = _read(tmp_path, "a: &a {x: 1, y: 2}\nb: *a\nc:\n  <<: *a\n  y: 3\n")

    assert source.data == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}}
    assert source.position(("c", "x")) == Position("sub/file.yaml", 1, 8)
    assert source.position(("c", "y")) == Position("sub/file.yaml", 5, 3)


def test_scalars_are_what_yaml_makes_of_them(tmp_path):
    """Scalars follow YAML 1.1, and their original text is available."""
    source = _read(tmp_path, "a: on\nb: 1.10\nc: 2024-01-02\nd: '1'\ne: ~\nf: [no]\n")

    assert source.data == {
        "a": True,
        "b": 1.1,
        "c": datetime.date(2024, 1, 2),
        "d": "1",
        "e": None,
        "f": [False],
    }
    raw = [source.raw(path) for path in [("a",), ("b",), ("d",), ("f", 0)]]
    assert raw == ["on", "1.10", None, "no"]


def test_positions_are_of_keys_and_fall_back_to_what_is_around(tmp_path):
    """A missing key has the position of its mapping."""
    source = _read(tmp_path, "# first\na:\n  - b: 1\n    c: 2\n")

    assert str(source.position(("a", 0, "c"))) == "sub/file.yaml:4:5"
    assert str(source.position(("a", 0, "zzz"))) == "sub/file.yaml:3:5"
    assert str(source.position(())) == "sub/file.yaml:2:1"


def test_a_file_that_is_not_there_or_a_folder(tmp_path):
    """The message contains the reason that the operating system gives."""
    with pytest.raises(ConfigurationError) as caught:
        YamlSource.read(tmp_path / "none.yaml", tmp_path)
    assert str(caught.value) == "none.yaml: the file cannot be read: no such file or directory"


def test_python_data_has_paths_instead_of_lines():
    """Data without a file has paths as positions."""
    source = YamlSource.from_data({"a": ({"b": 1},)}, "settings")

    assert source.data == {"a": [{"b": 1}]}
    assert source.position(("a", 0, "b")) == Position("settings: a[0].b", 0, 0)
    with pytest.raises(ConfigurationError, match=r"^<python>: a: the key 1 is not text$"):
        YamlSource.from_data({"a": {1: 2}})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1, 2", "expected ',' or ']', but got '<stream end>'"),
        ("a: { b: x? }", "expected ',' or '}', but got '?'"),
        ("a: *sk-123-secret", "found undefined alias"),
    ],
)
def test_the_words_of_the_parser(tmp_path, text, reason):
    """The message says what the parser expected, without content of the file."""
    with pytest.raises(ConfigurationError) as caught:
        _read(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.message == f"this is not YAML: {reason}"
