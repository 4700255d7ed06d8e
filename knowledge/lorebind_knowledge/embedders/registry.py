"""From a declared embedder to the object that embeds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.named_code import named_class
from lorebind_knowledge.declarations import (
    HashingEmbedderDeclaration,
    LangChainEmbedderDeclaration,
    LocalEmbedderDeclaration,
)
from lorebind_knowledge.declarations.embedders import OPENAI_KEY, OpenAIEmbedderDeclaration
from lorebind_knowledge.errors import EmbedderError
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations import EmbedderDeclaration
    from lorebind_knowledge.embedders.base import Embedder


def make_embedder(declaration: EmbedderDeclaration, environment: Environment) -> Embedder:
    """The embedder that a declaration names; its libraries are loaded here or at the first call.

    Raises:
        EmbedderError: when a LangChain class cannot be made with the configuration given.
    """
    match declaration:
        case LocalEmbedderDeclaration(config=config):
            from lorebind_knowledge.embedders.local import LocalEmbedder

            model_path = None
            if config.model_path is not None:
                model_path = environment.root / environment.fill(config.model_path)
            return LocalEmbedder(
                batch_size=config.batch_size, threads=config.threads, model_path=model_path
            )
        case HashingEmbedderDeclaration(config=config):
            from lorebind_knowledge.embedders.hashing import HashingEmbedder

            return HashingEmbedder(dimension=config.dimension, batch_size=config.batch_size)
        case OpenAIEmbedderDeclaration():
            return _openai(declaration, environment)
        case LangChainEmbedderDeclaration():
            return _langchain(declaration, environment)
    from lorebind_knowledge.embedders.plugged import make_plugged_embedder

    return make_plugged_embedder(declaration, environment)


def _openai(declaration: OpenAIEmbedderDeclaration, environment: Environment) -> Embedder:
    from lorebind_knowledge.embedders.openai import OpenAIEmbedder
    from lorebind_knowledge.embedders.retrying import SteadyEmbedder

    config = declaration.config

    def api_key() -> str:
        if declaration.api_key is not None:
            return str(environment.fill(declaration.api_key))
        if key := environment.lookup(OPENAI_KEY):
            return key
        if config.base_url is not None:
            return "none"  # the client insists on one; a server of one's own seldom does
        raise EmbedderError(
            f"embedder {declaration.id!r}: variable {OPENAI_KEY} is not set; put the key into the "
            "environment or into .env, or name another variable with api_key"
        )

    inner = OpenAIEmbedder(
        model=declaration.model,
        api_key=api_key,
        dimension=config.dimension,
        base_url=environment.fill(config.base_url),
        address_as_written=config.base_url,
        timeout=config.timeout_seconds,
        batch_size=config.batch_size,
        strip_newlines=config.strip_newlines,
    )
    return SteadyEmbedder(
        inner,
        retry=config.retry,
        max_concurrent=config.max_concurrent,
        requests_per_minute=config.requests_per_minute,
    )


def _langchain(declaration: LangChainEmbedderDeclaration, environment: Environment) -> Embedder:
    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.embedders.failures import said_by_provider
    from lorebind_knowledge.embedders.langchain import LangChainEmbedder
    from lorebind_knowledge.embedders.retrying import SteadyEmbedder

    written: dict[str, Any] = dict(declaration.config)
    if declaration.model is not None:
        written["model"] = declaration.model
    secret = {} if declaration.api_key is None else {"api_key": declaration.api_key}
    kind = named_class(
        declaration,
        environment,
        "a class derived from LangChain's Embeddings",
        Embeddings,
        failure=EmbedderError,
    )
    given = written | secret
    settings = environment.fill(given)
    try:
        embeddings = kind(**settings)
    except Exception as error:  # whatever a third party's constructor raises
        raise EmbedderError(
            f"embedder {declaration.id!r}: {declaration.class_path} cannot be made with the "
            f"configuration given: {said_by(error, written=given, resolved=settings)}"
        ) from error
    if not isinstance(embeddings, Embeddings):
        raise EmbedderError(
            f"embedder {declaration.id!r}: {declaration.class_path} is not a LangChain Embeddings"
        )
    # The settings as written, with their templates: an identity without secrets.
    inner = LangChainEmbedder(
        embeddings,
        model=declaration.model or "",
        settings=written,
        batch_size=declaration.batch_size,
        say=partial(said_by_provider, holder=embeddings, written=given, resolved=settings),
    )
    return SteadyEmbedder(
        inner,
        retry=declaration.retry,
        max_concurrent=declaration.max_concurrent,
        requests_per_minute=declaration.requests_per_minute,
    )
