"""Prompts: count tokens, render passages, fit them into a budget, and check citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door, register_built_in

if TYPE_CHECKING:
    from lorebind_prompts.assembler import Assembler, AssembleResult, Dropped, assemble_simple
    from lorebind_prompts.builder import (
        build_messages,
        count_messages,
        last_question,
        messages_of,
        put_before_question,
        user_texts,
        with_instructions,
    )
    from lorebind_prompts.citations import Citation, CitedAnswer, check, label
    from lorebind_prompts.contexts import RetrievedContext
    from lorebind_prompts.extractive import ExtractiveChatModel
    from lorebind_prompts.rendering.base import Passage, Renderer
    from lorebind_prompts.rendering.blocks import parse, render, renderer_for
    from lorebind_prompts.rendering.template import TemplateRenderer
    from lorebind_prompts.sharing import Portion, assemble_together
    from lorebind_prompts.tokens import (
        EstimateCounter,
        FileCounter,
        ModelCounter,
        TiktokenCounter,
        TokenCounter,
        counter_for,
    )

__all__ = [
    "AssembleResult",
    "Assembler",
    "Citation",
    "CitedAnswer",
    "Dropped",
    "EstimateCounter",
    "ExtractiveChatModel",
    "FileCounter",
    "ModelCounter",
    "Passage",
    "Portion",
    "Renderer",
    "RetrievedContext",
    "TemplateRenderer",
    "TiktokenCounter",
    "TokenCounter",
    "assemble_simple",
    "assemble_together",
    "build_messages",
    "check",
    "count_messages",
    "counter_for",
    "label",
    "last_question",
    "messages_of",
    "parse",
    "put_before_question",
    "render",
    "renderer_for",
    "user_texts",
    "with_instructions",
]

__getattr__ = lazy_door(
    __name__,
    {
        "assembler": ("AssembleResult", "Assembler", "Dropped", "assemble_simple"),
        "builder": (
            *("build_messages", "count_messages", "last_question", "messages_of"),
            *("put_before_question", "user_texts", "with_instructions"),
        ),
        "citations": ("Citation", "CitedAnswer", "check", "label"),
        "contexts": ("RetrievedContext",),
        "extractive": ("ExtractiveChatModel",),
        "rendering.base": ("Passage", "Renderer"),
        "rendering.blocks": ("parse", "render", "renderer_for"),
        "rendering.template": ("TemplateRenderer",),
        "sharing": ("Portion", "assemble_together"),
        "tokens": (
            *("EstimateCounter", "FileCounter", "ModelCounter", "TiktokenCounter"),
            *("TokenCounter", "counter_for"),
        ),
    },
)

register_built_in(
    {
        "tokenizers": {
            "tiktoken": "lorebind_prompts.tokenizers:tiktoken",
            "huggingface": "lorebind_prompts.tokenizers:huggingface",
            "estimate": "lorebind_prompts.tokenizers:estimate",
        }
    }
)
