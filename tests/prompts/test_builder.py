"""The messages of a prompt."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from lorebind_prompts import EstimateCounter, build_messages, count_messages


def test_blocks_stand_before_the_question() -> None:
    """Instructions and history precede one message with the blocks, a blank line, the question."""
    history = [HumanMessage("hi"), AIMessage("hello")]
    messages = build_messages(
        question="Why?", instructions="Be kind.", blocks=["<a>", "", "<b>"], history=history
    )
    assert messages == [SystemMessage("Be kind."), *history, HumanMessage("<a>\n\n<b>\n\nWhy?")]


def test_what_is_empty_leaves_no_trace() -> None:
    """Without instructions and blocks, only the question remains."""
    assert build_messages(question="Why?", blocks=[]) == [HumanMessage("Why?")]


def test_messages_are_counted_with_their_frames() -> None:
    """Each message counts its text and four tokens; parts without text are not counted."""
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = [SystemMessage("12345678"), HumanMessage([{"type": "text", "text": "1"}, picture])]
    assert count_messages(messages, EstimateCounter()) == 2 + 4 + 1 + 4
