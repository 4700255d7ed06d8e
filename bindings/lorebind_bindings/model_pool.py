"""The chat models of a project, each made once, at its first use."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_bindings.models import live_counter, make_model, model_counter
from lorebind_knowledge.declarations import ModelDeclaration
from lorebind_knowledge.declarations.models import EXTRACTIVE, LANGCHAIN
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import AgentDeclaration
    from lorebind_prompts import TokenCounter


class ModelPool:
    """Looks models up by their declared ids. Safe to share among threads."""

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self._making = threading.Lock()
        self._made: dict[str, tuple[BaseChatModel, TokenCounter]] = {}

    def get(self, model_id: str | None = None) -> tuple[BaseChatModel, TokenCounter]:
        """A model and the counter of its tokens; None means the project's default model.

        Args:
            model_id: a declared id, or `provider:model` as LangChain's `init_chat_model` takes it.

        Raises:
            NotFoundError: naming the models there are.
            ModelError, MissingDependencyError: it cannot be made.
        """
        declaration = self._declared(model_id)
        with self._making:
            if declaration.id not in self._made:
                model = make_model(declaration, self._loaded.environment)
                counter = model_counter(declaration, self._loaded.environment, model)
                self._made[declaration.id] = model, counter
            return self._made[declaration.id]

    def _declared(self, model_id: str | None) -> ModelDeclaration:
        if model_id is None or ":" not in model_id:  # no id has a colon
            return self._loaded.model(model_id)
        provider, _, model = model_id.partition(":")
        if provider == LANGCHAIN:  # a class is declared
            return self._loaded.model(model_id)
        return ModelDeclaration.model_construct(id=model_id, provider=provider, model=model)

    def condensing(self, bindings: Sequence[ResolvedBinding]) -> list[ResolvedBinding]:
        """The bindings, each with what gives the chat model that its `condense` names.

        Raises:
            NotFoundError: naming the models there are.
            UsageError: it is the extractive one, which writes nothing.
        """
        return [
            replace(binding, condenser=self._condenser(binding.settings.condense.model))
            for binding in bindings
        ]

    def _condenser(self, model_id: str | None) -> Callable[[], BaseChatModel] | None:
        if model_id is None:
            return None
        if self._declared(model_id).provider == EXTRACTIVE:
            raise UsageError(
                f"condense: model {model_id!r} is extractive, and so cannot rewrite a question; "
                "name another, or write: condense: turns"
            )
        return lambda: self.get(model_id)[0]

    def at(
        self, agent: AgentDeclaration | None, model: str | BaseChatModel | None = None
    ) -> tuple[BaseChatModel, TokenCounter]:
        """The model that answers where an agent does, and its counter, unless another is given.

        Raises:
            NotFoundError: naming the models there are.
        """
        if model is None or isinstance(model, str):
            return self.get(model or (agent.model if agent else None))
        return model, live_counter(model)
