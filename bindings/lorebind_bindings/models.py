"""The chat models of a project with their token counters, made from declarations."""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import lorebind_prompts  # which imports a name at its first use
from lorebind_config.checks.named_code import named_class, named_factory
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.declarations.models import EXTRACTIVE, LANGCHAIN, ModelDeclaration
from lorebind_config.declarations.objects import LiveObject
from lorebind_config.errors import LorebindError, MissingDependencyError, ModelError, UsageError
from lorebind_config.plugins import import_extra
from lorebind_config.reading.make_part import PartEnvironment
from lorebind_config.redaction import redacted_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_config.templates import Environment
    from lorebind_prompts import TokenCounter

_secrets: dict[int, Mapping[str, str]] = {}
"""The values of environment variables that each model was given, by the `id()` of the model: models
have no hash, so they cannot be keys of a WeakKeyDictionary."""


@contextmanager
def naming_failures(model: BaseChatModel) -> Iterator[None]:
    """Convert the exceptions of a model into a `ModelError` whose message contains no secrets."""
    try:
        yield
    except LorebindError:
        raise
    except Exception as error:  # each provider has its own exceptions; kept as the cause
        message = redacted_message(error, holder=model, values=_secrets.get(id(model)))
        raise ModelError(f"the chat model failed: {message}") from error


def make_model(declaration: ModelDeclaration, environment: Environment) -> BaseChatModel:
    """Return the chat model that a declaration describes.

    It is Lorebind's own model, a class or factory of the project, or one of the providers of
    LangChain's `init_chat_model`.

    Raises:
        MissingVariableError: a variable that the declaration uses is not set.
        MissingDependencyError: the provider's package is not installed.
        UsageError: the class or factory cannot be imported.
        ModelError: the model cannot be created with the given configuration.
    """
    for value in (declaration.model, declaration.class_path):
        if isinstance(value, LiveObject):
            return live_model(value.object)
    if declaration.provider == EXTRACTIVE:
        from lorebind_prompts import ExtractiveChatModel

        return ExtractiveChatModel()
    refuse_unset(declaration, environment)
    written: dict[str, Any] = dict(declaration.config)
    if declaration.api_key is not None:
        written["api_key"] = declaration.api_key
    part = PartEnvironment(environment)
    make = (
        _named(declaration, part) if declaration.provider == LANGCHAIN else _provided(declaration)
    )
    what = f"model {declaration.id!r} ({declaration.called})"
    with part.redact_errors(ModelError, f"{what} cannot be created from this configuration"):
        try:
            model = live_model(make(**part.fill(written)))
        except ImportError as error:
            raise MissingDependencyError(f"model {declaration.id!r}: {error}") from error
    _secrets[id(model)] = part.secrets
    # The id of a model that is gone can become that of another object.
    weakref.finalize(model, _secrets.pop, id(model), None)
    return model


def _named(declaration: ModelDeclaration, environment: Environment) -> Callable[..., Any]:
    """Return the class or factory that a declaration names."""
    from langchain_core.language_models import BaseChatModel

    expected = "a class derived from LangChain's BaseChatModel"
    make = (
        named_class(declaration, environment, expected, BaseChatModel, failure=ModelError)
        if declaration.factory is None
        else named_factory(
            declaration,
            environment,
            expected,
            BaseChatModel,
            failure=ModelError,
            place=("factory",),
        )
    )
    return make if declaration.model is None else partial(make, model=str(declaration.model))


def _provided(declaration: ModelDeclaration) -> Callable[..., Any]:
    """Return a function that creates the model of a LangChain provider."""
    chat_models = import_extra(
        "langchain.chat_models", extra="workflow", purpose=f"model {declaration.id!r}"
    )
    return partial(
        chat_models.init_chat_model, declaration.model, model_provider=declaration.provider
    )


def model_counter(
    declaration: ModelDeclaration, environment: Environment, model: BaseChatModel
) -> TokenCounter:
    """Return the counter that measures the token budgets for this model.

    Raises:
        PluginError: the declared tokenizer cannot be created.
    """
    if declaration.tokenizer is not None:
        from lorebind_prompts.tokenizers import make_counter  # few models declare a tokenizer

        return make_counter(declaration.tokenizer, environment)
    if declaration.provider == LANGCHAIN or isinstance(declaration.model, LiveObject):
        return live_counter(model)
    return lorebind_prompts.counter_for(declaration.model, declaration.provider)


def live_model(model: Any) -> BaseChatModel:
    """Return a chat model that Lorebind did not create, after checking its type.

    Raises:
        ModelError: the object is not a chat model.
    """
    from langchain_core.language_models import BaseChatModel

    if not isinstance(model, BaseChatModel):
        raise ModelError(
            f"expected a LangChain chat model (BaseChatModel), got a {type(model).__name__}"
        )
    return model


def live_counter(model: BaseChatModel) -> TokenCounter:
    """Return the token counter for a chat model that Lorebind did not create.

    The counter is chosen by the model's name if the name is known. Otherwise the model itself
    counts, if it can.
    """
    names = (getattr(model, field, None) for field in ("model_name", "model", "model_id"))
    name = next((name for name in names if isinstance(name, str)), None)
    counter = lorebind_prompts.counter_for(name, model._llm_type)
    if counter.exact or not lorebind_prompts.ModelCounter.knows(model):
        return counter
    return lorebind_prompts.ModelCounter(model)


class ModelPool:
    """The chat models of a project by their declared ids. Thread-safe."""

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self._making = threading.Lock()  # two threads must not make the same model
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
