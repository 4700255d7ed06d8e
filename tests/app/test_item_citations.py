"""The items of a collection cite their own passages, and no printed list has a marker twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .helpers import Cli
from .shop import PROJECT, QUESTION, shop

SNOW = "What covers alpine chalets?"
NAMES = ["rules/keys.md", "rules/snow.md"]
YAML = (
    PROJECT.replace("knowledge: [{ id: guide }]", "knowledge: [{ id: rules, top_k: 1 }]")
    + """\
  - id: each
    input: { questions: { type: array } }
    tasks:
      - id: answers
        type: collection
        items: "{{ .input.questions }}"
        task: { id: one, prompt: "{{ .item }}" }
  - id: both
    input: { questions: { type: array } }
    tasks:
      - id: inner
        type: composite
        workflow: two
        input: { questions: "{{ .input.questions }}" }
  - id: two
    input: { questions: { type: array } }
    tasks:
      - { id: keys, prompt: "{{ .input.questions.0 }}" }
      - { id: snow, prompt: "{{ .input.questions.1 }}" }
"""
)
QUESTIONS = [QUESTION, SNOW]


def test_each_item_has_its_verdict_and_citations(tmp_path: Path) -> None:
    """An item's passages are numbered from 1; a finished thread gives the same result."""
    with shop(tmp_path, files={"lorebind.yaml": YAML}) as project:
        result = project.run("each", {"questions": QUESTIONS}, thread_id="t")
        again = project.resume("each", "t")
    for task in (result.tasks["answers"], again.tasks["answers"]):
        assert [item.verdict for item in task.items] == ["hit", "hit"]
        cited = [
            [(citation.marker, citation.uri) for citation in item.citations] for item in task.items
        ]
        assert cited == [[("[1]", NAMES[0])], [("[1]", NAMES[1])]]
        assert [citation.uri for citation in task.citations] == NAMES


def test_the_sources_of_items_are_told_apart(empty_cli: Cli) -> None:
    """The command prints the sources of each item by itself; JSON has them per item."""
    shop(empty_cli.root, files={"lorebind.yaml": YAML}).close()
    inputs = f"questions={json.dumps(QUESTIONS)}"
    printed = empty_cli("run", "each", "-i", inputs).out
    assert re.findall(r"Sources of (\S+ \(\w+\)) ─+\n(.*), line 1\n", printed) == [
        ("answers[0] (hit)", f"[1] {NAMES[0]}"),
        ("answers[1] (hit)", f"[1] {NAMES[1]}"),
    ]
    texts = re.split(r"output\[\d\] ─+\n", printed)[1:]
    for text, name in zip(texts, NAMES, strict=True):  # each text with its sources below it
        assert text.index("[1]") < text.index("Sources of") < text.index(f"[1] {name}")
        assert sum(other in text for other in NAMES) == 1
    items = json.loads(empty_cli("run", "each", "-i", inputs, "-o", "json").out)["tasks"]["answers"]
    assert [item["citations"][0]["label"] for item in items["items"]] == [
        f"{name}, line 1" for name in NAMES
    ]


def test_no_number_stands_for_two_sources(empty_cli: Cli) -> None:
    """The sources of a task with several prompts are listed without their numbers."""
    shop(empty_cli.root, files={"lorebind.yaml": YAML}).close()
    printed = empty_cli("run", "both", "-i", f"questions={json.dumps(QUESTIONS)}").out
    sources = printed.partition("Sources of inner (hit)")[2].splitlines()[1:3]
    assert sources == [f"- {name}, line 1" for name in NAMES]


def test_each_output_has_its_sources_below_it(empty_cli: Cli) -> None:
    """Two outputs that both cite `[1]` are each followed by their own list."""
    outputs = "    outputs: { a: '{{ .tasks.keys.output }}', b: '{{ .tasks.snow.output }}' }\n"
    shop(empty_cli.root, files={"lorebind.yaml": YAML + outputs}).close()
    printed = empty_cli("run", "two", "-i", f"questions={json.dumps(QUESTIONS)}").out
    rules = re.findall(r"^(.*) ─+$|^(\[1\] .*), line 1$", printed, re.MULTILINE)
    assert [rule or source for rule, source in rules] == [
        *("a", "Sources of keys (hit)", f"[1] {NAMES[0]}"),
        *("b", "Sources of snow (hit)", f"[1] {NAMES[1]}"),
    ]
