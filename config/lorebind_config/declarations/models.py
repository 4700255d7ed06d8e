"""`models:` the language models, and how tokens are counted for them."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import Declaration, Id, Wants, refused
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.objects import ClassOrObject, LiveObject, NameOrObject
from lorebind_config.declarations.values import ConfigMap, FactoryPath, Secret


class TokenizerBase(Declaration):
    """The base of all tokenizer declarations, including those of plugins."""

    label: ClassVar[str] = "tokenizer"
    kind_key: ClassVar[str] = "provider"


TokenizerDeclaration: TypeAlias = Annotated[
    TokenizerBase,
    KindRegistry("tokenizers", TokenizerBase),
]
"""A tokenizer, selected by `provider`: built in or from a plugin."""


EXTRACTIVE = "extractive"
LANGCHAIN = "langchain"


class ModelDeclaration(Declaration):
    """A chat model: `extractive`, which quotes the passages, or a model of LangChain."""

    label: ClassVar[str] = "model"
    templated: ClassVar[tuple[str, ...]] = ("api_key", "config")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_says_which_model`
            "if": {"properties": {"provider": {"const": LANGCHAIN}}},
            "then": {
                "oneOf": [
                    {"required": [key], "properties": {key: {"type": "string"}}}
                    for key in ("class", "factory")
                ]
            },
            "else": {
                "properties": {"class": {"type": "null"}, "factory": {"type": "null"}},
                "if": {"properties": {"provider": {"const": EXTRACTIVE}}},
                "else": {"required": ["model"], "properties": {"model": {"type": "string"}}},
            },
        }
    )

    id: Id = Field(description="The id by which agents refer to the model.")
    provider: str = Field(
        min_length=1,
        description="`extractive`: no model, the answer quotes the passages; `langchain`: your own "
        "`class` or `factory`; or a provider of LangChain's init_chat_model, such as `openai`.",
    )
    model: NameOrObject | None = Field(
        None,
        description="The provider's name of the model, such as `gpt-4o`; not needed for "
        "`extractive`. A class or factory receives it as `model`.",
    )
    class_path: ClassOrObject | None = Field(
        None,
        alias="class",
        description="langchain: a subclass of BaseChatModel, as 'package.module:Class', in the "
        "project folder or in an installed package.",
    )
    factory: FactoryPath | None = Field(
        None,
        description="langchain: a function or class method that creates the model, as "
        "'package.module:function' or 'package.module:Class.method'.",
    )
    api_key: Secret | None = Field(
        None,
        description="Passed to the model as `api_key`. It must be a template, such as "
        "`{{ .env.OPENAI_API_KEY }}`.",
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Further arguments for the model, by name."
    )
    tokenizer: TokenizerDeclaration | None = Field(
        None,
        description="The tokenizer that counts tokens for `max_tokens`. By default, the model's "
        "name selects it.",
    )

    @property
    def called(self) -> str:
        """The name of the underlying model in messages: `openai:gpt-4o`, `models:Mine`."""
        path = self.factory or self.class_path
        return str(path) if path is not None else f"{self.provider}:{self.model}"

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        is_object = isinstance(self.model, LiveObject)
        if self.provider not in (EXTRACTIVE, LANGCHAIN) and not is_object:
            words = f"a model of {self.provider!r}, whose client reads variables of its own"
            yield "provider", "reach", words
            yield "provider", "send", f"the hosts of {self.provider!r}"

    @model_validator(mode="after")
    def _says_which_model(self) -> Self:
        makers = {"class": self.class_path, "factory": self.factory}
        keys = [key for key, value in makers.items() if value is not None]
        if isinstance(self.model, LiveObject):
            keys.append("model")
        if self.provider == LANGCHAIN and len(keys) != 1:
            if keys:
                raise refused(f"{' and '.join(keys)} are given", "keep one of them", keys[-1])
            raise refused(f"model {self.id!r} has neither class nor factory", "write one of them")
        if self.provider != LANGCHAIN and (self.class_path or self.factory):
            hint = f"write provider: {LANGCHAIN}, or remove it"
            raise refused(f"provider {self.provider!r} takes no {keys[0]}", hint, keys[0])
        if self.provider not in (EXTRACTIVE, LANGCHAIN) and self.model is None:
            hint = f"provider {self.provider!r} needs the name of one of its models"
            raise refused("missing key 'model'", hint)
        return self
