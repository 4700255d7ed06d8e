"""`models:` the chat models that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.live import LiveObject, NameOrObject
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.tokenizers import TokenizerDeclaration
from lorebind_knowledge.declarations.values import ConfigMap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.base import Wants

EXTRACTIVE = "extractive"


class ModelDeclaration(Declaration):
    """A chat model: `extractive`, which quotes the passages, or one of LangChain's."""

    label: ClassVar[str] = "model"
    templated: ClassVar[tuple[str, ...]] = ("api_key", "config")

    # The same as `_names_a_model`.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"provider": {"const": EXTRACTIVE}}},
            "else": {"required": ["model"], "properties": {"model": {"type": "string"}}},
        }
    )

    id: Id = Field(description="The name by which agents refer to the model.")
    provider: str = Field(
        min_length=1,
        description="`extractive`, or a provider of LangChain's init_chat_model: openai, …",
    )
    model: NameOrObject | None = Field(
        None, description="The provider's name of the model; `extractive` needs none."
    )
    api_key: Secret | None = Field(
        None, description="Handed to the model as `api_key`; only a template is accepted."
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Further arguments of the model, by name."
    )
    tokenizer: TokenizerDeclaration | None = Field(
        None, description="How its tokens are counted. By default its name decides."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.provider != EXTRACTIVE and not isinstance(self.model, LiveObject):
            words = f"a model of {self.provider!r}, whose client reads variables of its own"
            yield "provider", "reach", words

    @model_validator(mode="after")
    def _names_a_model(self) -> ModelDeclaration:
        if self.provider != EXTRACTIVE and self.model is None:
            hint = f"provider {self.provider!r} needs the name of one of its models"
            raise RefusedError([Fault("missing key 'model'", hint)])
        return self
