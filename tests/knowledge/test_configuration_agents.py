"""Settings of agents that their extractive model does not support."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project

PROJECT = """name: p
models: [{ id: ex, provider: extractive }]
agents:
  - id: a
"""


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ('tools: ["steps:look"]', "has tools, but its model 'ex' (extractive) cannot call tools"),
        ("output_schema: {type: object}", "has output_schema, but its model 'ex' (extractive)"),
    ],
)
@pytest.mark.parametrize("model", ["", "    model: ex\n"])
def test_an_extractive_model_takes_neither(
    tmp_path: Path, field: str, message: str, model: str
) -> None:
    """An extractive model, named or default, is refused; without models, a call may bring one."""
    (tmp_path / "steps.py").write_text('def look() -> str:\n    """Look."""\n    return ""\n')
    file = tmp_path / "lorebind.yaml"
    file.write_text(f"{PROJECT}{model}    {field}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path)
    assert [message in problem.message for problem in caught.value.problems] == [True]
    file.write_text(
        file.read_text().replace(PROJECT.splitlines()[1], "models: []").replace(model, "")
    )
    load_project(tmp_path)
