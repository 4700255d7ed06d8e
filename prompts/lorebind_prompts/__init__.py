"""Prompts: count tokens, render passages, fit them into a budget, and check citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door, register_built_in

if TYPE_CHECKING:
    from lorebind_prompts.assembler import Assembler as Assembler
    from lorebind_prompts.assembler import AssembleResult as AssembleResult
    from lorebind_prompts.assembler import Dropped as Dropped
    from lorebind_prompts.assembler import assemble_simple as assemble_simple
    from lorebind_prompts.builder import build_messages as build_messages
    from lorebind_prompts.builder import count_messages as count_messages
    from lorebind_prompts.builder import last_question as last_question
    from lorebind_prompts.builder import messages_of as messages_of
    from lorebind_prompts.builder import put_before_question as put_before_question
    from lorebind_prompts.builder import user_texts as user_texts
    from lorebind_prompts.builder import with_instructions as with_instructions
    from lorebind_prompts.citations import Citation as Citation
    from lorebind_prompts.citations import CitedAnswer as CitedAnswer
    from lorebind_prompts.citations import Mention as Mention
    from lorebind_prompts.citations import check as check
    from lorebind_prompts.citations import label as label
    from lorebind_prompts.contexts import RetrievedContext as RetrievedContext
    from lorebind_prompts.extractive import ExtractiveChatModel as ExtractiveChatModel
    from lorebind_prompts.rendering.base import Passage as Passage
    from lorebind_prompts.rendering.base import Renderer as Renderer
    from lorebind_prompts.rendering.blocks import parse as parse
    from lorebind_prompts.rendering.blocks import render as render
    from lorebind_prompts.rendering.blocks import renderer_for as renderer_for
    from lorebind_prompts.rendering.template import TemplateRenderer as TemplateRenderer
    from lorebind_prompts.sharing import Portion as Portion
    from lorebind_prompts.sharing import assemble_together as assemble_together
    from lorebind_prompts.tokens import EstimateCounter as EstimateCounter
    from lorebind_prompts.tokens import FileCounter as FileCounter
    from lorebind_prompts.tokens import ModelCounter as ModelCounter
    from lorebind_prompts.tokens import TiktokenCounter as TiktokenCounter
    from lorebind_prompts.tokens import TokenCounter as TokenCounter
    from lorebind_prompts.tokens import counter_for as counter_for
else:
    __all__, __getattr__ = lazy_door(
        __name__,
        {
            ".assembler": "Assembler AssembleResult Dropped assemble_simple",
            ".builder": (
                "build_messages count_messages last_question messages_of put_before_question "
                "user_texts with_instructions"
            ),
            ".citations": "Citation CitedAnswer Mention check label",
            ".contexts": "RetrievedContext",
            ".extractive": "ExtractiveChatModel",
            ".rendering.base": "Passage Renderer",
            ".rendering.blocks": "parse render renderer_for",
            ".rendering.template": "TemplateRenderer",
            ".sharing": "Portion assemble_together",
            ".tokens": (
                "EstimateCounter FileCounter ModelCounter TiktokenCounter TokenCounter counter_for"
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
