"""`embedders:` what turns texts into vectors."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.values import ConfigMap


class _Embedder(Declaration):
    label: ClassVar[str] = "embedder"
    kind_key: ClassVar[str] = "provider"

    id: Id = Field(description="The name by which knowledge bases refer to the embedder.")


class LocalEmbedderConfig(Declaration):
    """Settings of the embedder that runs on this machine."""

    templated: ClassVar[tuple[str, ...]] = ("model_path",)

    batch_size: int = Field(64, ge=1, le=1024, description="Texts per call.")
    threads: int | None = Field(
        None, ge=1, description="Threads of the model; left out, it is fitted to the machine."
    )
    model_path: str | None = Field(
        None, description="Path of another model.onnx of the same architecture."
    )


class LocalEmbedderDeclaration(_Embedder):
    """all-MiniLM-L6-v2 on this machine: no key, no network."""

    provider: Literal["local"] = Field(description="Runs on this machine.")
    model: Literal["all-MiniLM-L6-v2"] = Field(
        "all-MiniLM-L6-v2", description="The sentence embedding model."
    )
    config: LocalEmbedderConfig = Field(
        default_factory=LocalEmbedderConfig, description="How the model is run."
    )


class HashingEmbedderConfig(Declaration):
    """Settings of the hashing embedder."""

    dimension: int = Field(256, ge=8, le=8192, description="Length of the vectors.")
    batch_size: int = Field(1024, ge=1, le=8192, description="Texts per call.")


class HashingEmbedderDeclaration(_Embedder):
    """A deterministic bag of words, for tests: lexical, not semantic."""

    provider: Literal["hashing"] = Field(description="Counts words; needs no model.")
    config: HashingEmbedderConfig = Field(
        default_factory=HashingEmbedderConfig, description="The shape of the vectors."
    )


_CLASS_PATH = "^[^:]+:[^:]+$"


def _class_path(value: str) -> str:
    if not re.fullmatch(_CLASS_PATH, value):
        raise RefusedError([Fault(f"{value!r} is not of the form 'package.module:Class'")])
    return value


class LangChainEmbedderDeclaration(_Embedder):
    """Any `Embeddings` class of LangChain."""

    templated: ClassVar[tuple[str, ...]] = ("api_key", "config")

    provider: Literal["langchain"] = Field(description="An Embeddings class of LangChain.")
    class_path: Annotated[
        str,
        AfterValidator(_class_path),
        WithJsonSchema({"type": "string", "pattern": _CLASS_PATH}),
    ] = Field(alias="class", description="The class, as 'package.module:Class'.")
    model: str | None = Field(None, description="Handed to the class as `model`.")
    api_key: Secret | None = Field(
        None, description="Handed to the class as `api_key`; only a template is accepted."
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Further arguments of the class, by name."
    )
    batch_size: int = Field(64, ge=1, le=8192, description="Texts per call.")


EmbedderDeclaration: TypeAlias = Annotated[
    LocalEmbedderDeclaration | HashingEmbedderDeclaration | LangChainEmbedderDeclaration,
    Field(discriminator="provider"),
]
"""One of the embedders, chosen by `provider`."""
