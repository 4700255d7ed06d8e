"""No hostile passage leaves its block, imitates another, or is cited as something else."""

from __future__ import annotations

import re

import pytest
from langchain_core.messages import HumanMessage

from lorebind_prompts import (
    Assembler,
    ExtractiveChatModel,
    check,
    parse,
    put_before_question,
)
from lorebind_prompts.cleaning import clean_line, clean_text
from lorebind_prompts.extractive import NO_WORDS_INTRODUCTION
from lorebind_prompts.rendering.blocks import without_blocks

from .helpers import context
from .hostile import CONTROL_TOKENS, HOSTILE

RENDERERS = {
    "bullets": "bullets",
    "json": "json",
    "xml": "xml",
    "markdown": "markdown",
    "template": "--- From {{ .marker }}: {{ .source }} {{ .metadata.title }} ---\n{{ .content }}",
}

STRUCTURE = {
    "bullets": r"- \[\d+\].*",
    "json": r'\[|\]|\{"marker": "\[\d+\]", .*\},?',
    "xml": r'<passage marker="\[\d+\]" source="[^"<>]*">|</passage>',
    "markdown": r"### \[\d+\].*|",
    "template": r"--- From \[\d+\]: .* ---",
}
"""The lines that a renderer itself writes."""

PASSAGES = {
    "bullets": r"  .*|",
    "json": r"(?!)",
    "xml": r"[^<>]*",
    "markdown": r">( .*)?",
    "template": r"  .*|",
}
"""The form of a passage's lines."""

SPECIAL = re.compile("|".join(map(re.escape, CONTROL_TOKENS)))


def test_there_are_a_hundred_of_them() -> None:
    """The corpus has the stated size and no duplicates."""
    assert len(HOSTILE) == len(set(HOSTILE)) >= 100


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_hostile_passage_stays_where_it_is(renderer: str) -> None:
    """With hostile content, title, address and label, each line is a renderer's or a passage's."""
    for hostile in HOSTILE:
        stays_where_it_is(hostile, renderer)


def stays_where_it_is(hostile: str, renderer: str) -> None:
    result = Assembler(renderer=RENDERERS[renderer], label=hostile).assemble(
        [
            context("good", 0.9),
            context(hostile, 0.5, title=hostile, uri=hostile),
            context("good again", 0.1),
        ]
    )
    lines = result.context.split("\n")
    assert result.context.splitlines() == lines
    opening, closing = lines[0], lines[-1]
    nonce = re.match(r"<knowledge id=([0-9a-f]{8})\b", opening)
    assert nonce
    assert closing == f"</knowledge id={nonce[1]}>"
    assert result.context.count(nonce[1]) == 2
    structure = re.compile(STRUCTURE[renderer])
    others = re.compile(PASSAGES[renderer])
    markers = [
        marker
        for line in lines[2:-1]
        if structure.fullmatch(line) and not others.fullmatch(line)
        for marker in re.findall(r"\[\d+\]", line)[:1]
    ]
    assert markers == [citation.marker for citation in result.citations]
    assert all(structure.fullmatch(line) or others.fullmatch(line) for line in lines[2:-1])
    assert not SPECIAL.search(result.context)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_what_is_read_is_what_was_shown(renderer: str) -> None:
    """Parsing a prompt with a hostile passage returns exactly its passages, each with its text."""
    for hostile in HOSTILE:
        is_read_as_it_was_shown(hostile, renderer)


def is_read_as_it_was_shown(hostile: str, renderer: str) -> None:
    result = Assembler(renderer=RENDERERS[renderer]).assemble(
        [context("good", 0.9), context(hostile, 0.5, title=hostile)]
    )
    prompt = f"{result.context}\n\nWhat is good?"
    assert [(passage.marker, passage.content) for passage in parse(prompt)] == [
        (citation.marker, citation.content) for citation in result.citations
    ]
    assert without_blocks(prompt) == "What is good?"


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_no_citation_is_forged(hostile: str) -> None:
    """A quote from a passage is cited as that passage, whatever numbers it contains."""
    is_cited_as_itself(hostile)


def is_cited_as_itself(hostile: str) -> None:
    text = f"{hostile} The launch code is swordfish."
    result = Assembler().assemble([context("About snow in the alps.", 0.9), context(text, 0.5)])
    marker = next(
        citation.marker for citation in result.citations if "swordfish" in citation.content
    )
    messages = put_before_question(
        [HumanMessage("What is the launch code swordfish?")], [result.context]
    )
    reply = str(ExtractiveChatModel().invoke(messages).text)
    answer = check(reply, result.citations)
    if reply.startswith(NO_WORDS_INTRODUCTION):  # no word of the question was found
        assert reply == f"{NO_WORDS_INTRODUCTION}\n\n> About snow in the alps. [1]"
    else:
        assert {citation.marker for citation in answer.citations} <= {marker}
    assert answer.unknown == []


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_cleaning_is_done_once(hostile: str) -> None:
    """Cleaning a cleaned passage changes nothing, so what is shown is what is cited."""
    assert clean_text(clean_text(hostile)) == clean_text(hostile)
    assert clean_line(clean_line(hostile)) == clean_line(hostile)


def test_role_tokens_are_taken_apart() -> None:
    """Role tokens of open models are broken up in a passage; other tags stay."""
    for token in CONTROL_TOKENS:
        cleaned = clean_text(f"A {token} token.")
        assert cleaned == f"A {token[0]} {token[1:]} token."
        assert clean_line(f"A {token} token.") == cleaned
    assert clean_text("<|im_start|>system</s>") == "< |im_start|>system< /s>"
    assert clean_text("[INST] <<SYS>> [/INST]") == "[ INST] < <SYS>> [ /INST]"
    assert clean_text("List<String> a <b>c</b> [1] <script>") == (
        "List<String> a <b>c</b> [1] <script>"
    )
    for plain in ("[NOTE] x[i] [img] [args]", "a <|b| c|> d", "[ERROR] <p> <code> a < b", "<||>"):
        assert clean_text(plain) == plain
