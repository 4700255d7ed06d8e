"""Kinds of declarations, selected by a word in the YAML: built in or from a plugin."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Union, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticKnownError, core_schema

from lorebind_config import plugins
from lorebind_config.declarations.base import Declaration, refused
from lorebind_config.errors import PluginError

MEMBERS = ("Declaration", "make")
"""The members of every kind, built in or from a plugin.

`Declaration` is a model derived from the base of its registry, such as `EmbedderBase`. Its
`provider` (or `type`, or `strategy`) is a Literal of the word that selects the kind; its other
fields are the keys that the YAML accepts. `make(declaration, environment)` creates the declared
object; `environment.fill` fills in templates, `environment.root` is the project folder.
"""

REGISTRIES: dict[plugins.Group, KindRegistry] = {}
"""All registries, by the entry-point group of their plugins."""


class KindRegistry:
    """Used in `Annotated[base, KindRegistry(…)]`: a word in the YAML selects the declaration.

    A kind's module is imported only when a file selects the kind, so that a project does not import
    kinds that it does not use. Only schemas and error messages import all of them.
    """

    def __init__(
        self, group: plugins.Group, base: type[Declaration], default: str | None = None
    ) -> None:
        """
        Args:
            group: the group of its kinds: the built-in ones, and the entry points of plugins.
            base: the base class of all its declarations, whose `kind_key` selects the kind.
            default: the word to use if a declaration has none.
        """
        self.group, self.base, self.default = group, base, default
        REGISTRIES[group] = self

    @property
    def built_in(self) -> Mapping[str, str]:
        """Lorebind's own kinds: the module of each, by its word."""
        return plugins.built_in(self.group)

    def kind(self, word: str) -> Any:
        """Return the object with the `MEMBERS` of a kind, or None if the word is unknown.

        Raises:
            PluginError: the kind cannot be loaded, does not fit its group, or two plugins claim
                the word.
        """
        offer = plugins.offered(self.group, word)
        if offer is None:
            return None
        module = plugins.load(offer, MEMBERS)
        kind, key = module.Declaration, self.base.kind_key
        if not (isinstance(kind, type) and issubclass(kind, self.base)):
            raise PluginError(
                f"plugin {offer}: its Declaration is not derived from "
                f"{self.base.__module__}.{self.base.__name__}"
            )
        if key not in kind.model_fields or word not in kind_words(kind):
            raise PluginError(
                f"plugin {offer}: its Declaration does not declare {key}: Literal[{word!r}]"
            )
        return module

    def union(self) -> Any:
        """Return the union of all kinds' declarations; omit plugins that cannot be loaded."""
        return Union[tuple(self._declarations().values())]  # noqa: UP007 - built from a list

    def read(self, value: Any) -> Any:
        """Validate a mapping by the kind that its word selects, and return the declaration.

        Raises:
            ValidationError, PydanticKnownError, RefusedError: the mapping is not valid.
        """
        key = self.base.kind_key
        if not isinstance(value, dict | self.base):
            raise PydanticKnownError("model_attributes_type")
        values = value if isinstance(value, dict) else value.__dict__
        word = values.get(key, self.default)
        if word is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": key})
        try:
            kind = self.kind(word) if isinstance(word, str) else None
        except PluginError as error:
            raise refused(str(error), "", key) from error
        if kind is None:
            context = {"discriminator": key, "tag": str(word), "expected_tags": ""}
            raise PydanticKnownError("union_tag_invalid", context)
        return _named(word, kind.Declaration).validate_python(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        union = handler(TypeAdapter(Annotated[Any, _ByWord(self._declarations())]).core_schema)
        first, *others = union["oneOf"]
        return union if others else first

    def _declarations(self) -> dict[str, type[Declaration]]:
        declarations = {}
        for word in [*self.built_in, *plugins.offers(self.group)]:
            try:
                declarations[word] = self.kind(word).Declaration
            except PluginError:  # reported when a file selects the kind, and by `doctor`
                continue
        return declarations


class _ByWord:
    """A schema of declarations whose error paths contain the word that selected one of them."""

    def __init__(self, declarations: Mapping[str, type[Declaration]]) -> None:
        self.declarations = declarations

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        choices = {word: handler(kind) for word, kind in self.declarations.items()}
        return core_schema.tagged_union_schema(choices, discriminator=lambda _: next(iter(choices)))


@functools.cache
def _named(word: str, kind: type[Declaration]) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[Any, _ByWord({word: kind})])


def is_plugins(declaration: Declaration) -> bool:
    """Check whether a declaration is defined by a plugin."""
    return any(
        isinstance(declaration, registry.base)
        and getattr(declaration, registry.base.kind_key) not in registry.built_in
        for registry in REGISTRIES.values()
    )


def kind_words(kind: type[Declaration]) -> tuple[str, ...]:
    """Return the words that select a declaration by its `kind_key`."""
    return get_args(kind.model_fields[kind.kind_key].annotation)
