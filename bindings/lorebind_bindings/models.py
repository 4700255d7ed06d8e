"""From a declared model to a LangChain chat model, and to the counter of its tokens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.make_part import PartEnvironment
from lorebind_knowledge.declarations.live import LiveObject
from lorebind_knowledge.errors import LorebindError, MissingDependencyError, ModelError
from lorebind_knowledge.extras import import_extra
from lorebind_knowledge.redaction import said_by
from lorebind_prompts import ModelCounter, counter_for
from lorebind_prompts.tokenizers.make import make_counter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.language_models import BaseChatModel

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations import ModelDeclaration
    from lorebind_prompts import TokenCounter

EXTRACTIVE = "extractive"


@contextmanager
def naming_failures(model: BaseChatModel) -> Iterator[None]:
    """Whatever a model raises inside becomes a ModelError that says it without secrets."""
    try:
        yield
    except LorebindError:
        raise
    except Exception as error:  # any provider's own exceptions: named, and kept as the cause
        raise ModelError(f"the chat model failed: {said_by(error, holder=model)}") from error


def make_model(declaration: ModelDeclaration, environment: Environment) -> BaseChatModel:
    """The chat model that a declaration names: ours, or one that `init_chat_model` knows.

    Raises:
        MissingDependencyError: the provider's package is not installed.
        ModelError: the model cannot be made with the configuration given.
    """
    if isinstance(declaration.model, LiveObject):
        return live_model(declaration.model.object)
    if declaration.provider == EXTRACTIVE:
        from lorebind_prompts import ExtractiveChatModel

        return ExtractiveChatModel()
    chat_models = import_extra(
        "langchain.chat_models", extra="workflow", purpose=f"model {declaration.id!r}"
    )
    secret = {} if declaration.api_key is None else {"api_key": declaration.api_key}
    written = {**declaration.config, **secret}
    own = PartEnvironment(environment)
    what = f"model {declaration.id!r} ({declaration.provider}:{declaration.model})"
    with own.saying(ModelError, f"{what} cannot be made with the configuration given"):
        try:
            model: BaseChatModel = chat_models.init_chat_model(
                declaration.model, model_provider=declaration.provider, **own.fill(written)
            )
        except ImportError as error:
            raise MissingDependencyError(f"model {declaration.id!r}: {error}") from error
    return model


def model_counter(declaration: ModelDeclaration, environment: Environment) -> TokenCounter:
    """The counter that budgets for this model are measured with.

    Raises:
        PluginError: the declared tokenizer cannot be made.
    """
    if declaration.tokenizer is not None:
        return make_counter(declaration.tokenizer, environment)
    if isinstance(declaration.model, LiveObject):
        return live_counter(declaration.model.object)
    return counter_for(declaration.model, declaration.provider)


def live_model(model: Any) -> BaseChatModel:
    """A chat model that was made elsewhere.

    Raises:
        ModelError: it is none.
    """
    from langchain_core.language_models import BaseChatModel

    if not isinstance(model, BaseChatModel):
        raise ModelError(
            f"expected a chat model of LangChain, a BaseChatModel; got a {type(model).__name__}"
        )
    return model


def live_counter(model: BaseChatModel) -> TokenCounter:
    """The same for a chat model that was made elsewhere.

    By the name that it says it has, where that is known; else as the model itself counts.
    """
    names = (getattr(model, field, None) for field in ("model_name", "model", "model_id"))
    name = next((name for name in names if isinstance(name, str)), None)
    counter = counter_for(name, model._llm_type)
    return ModelCounter(model) if not counter.exact and ModelCounter.knows(model) else counter
