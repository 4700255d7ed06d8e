"""The chat models of a project, each created once, at its first use."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_bindings.models import live_counter, make_model, model_counter
from lorebind_config.declarations.models import EXTRACTIVE, LANGCHAIN, ModelDeclaration
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_prompts import TokenCounter


class ModelPool:
    """The chat models of a project by their declared ids. Thread-safe."""

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self._making = threading.Lock()
        self._made: dict[str, tuple[BaseChatModel, TokenCounter]] = {}

    def get(self, model_id: str | None = None) -> tuple[BaseChatModel, TokenCounter]:
        """Return a model and its token counter.

        Args:
            model_id: a declared id, or `provider:model` as in LangChain's `init_chat_model`. None
                means the project's default model.

        Raises:
            NotFoundError: there is no such model; the message lists the known ones.
            ModelError, MissingDependencyError: the model cannot be created.
        """
        declaration = self._declared(model_id)
        with self._making:
            if declaration.id not in self._made:
                model = make_model(declaration, self._loaded.environment)
                counter = model_counter(declaration, self._loaded.environment, model)
                self._made[declaration.id] = model, counter
            return self._made[declaration.id]

    def _declared(self, model_id: str | None) -> ModelDeclaration:
        if model_id is None or ":" not in model_id:  # ids cannot contain a colon
            return self._loaded.model(model_id)
        provider, _, model = model_id.partition(":")
        if provider == LANGCHAIN:  # such a model names a class, so it has to be declared
            return self._loaded.model(model_id)
        return ModelDeclaration.model_construct(id=model_id, provider=provider, model=model)

    def condensing(self, bindings: Sequence[ResolvedBinding]) -> list[ResolvedBinding]:
        """Return the bindings, each with a function that returns its `condense` model.

        Raises:
            NotFoundError: there is no such model; the message lists the known ones.
            UsageError: the model is the extractive one, which cannot rewrite a question.
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
                f"condense: model {model_id!r} is extractive and cannot rewrite a question; "
                "name another model, or write: condense: turns"
            )
        return lambda: self.get(model_id)[0]

    def at(
        self, agent: AgentDeclaration | None, model: str | BaseChatModel | None = None
    ) -> tuple[BaseChatModel, TokenCounter]:
        """Return the model for an agent and its token counter.

        Args:
            agent: the agent that answers; None means the project's default model.
            model: a model or its id, used instead of the agent's model.

        Raises:
            NotFoundError: there is no such model; the message lists the known ones.
        """
        if model is None or isinstance(model, str):
            return self.get(model or (agent.model if agent else None))
        return model, live_counter(model)
