"""Places in the YAML where installed plugins may declare kinds of their own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic import Discriminator, Tag, TypeAdapter
from pydantic_core import core_schema

from lorebind_knowledge import plugins
from lorebind_knowledge.declarations.base import Declaration, Fault, RefusedError
from lorebind_knowledge.declarations.places import PLACES
from lorebind_knowledge.errors import PluginError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

MEMBERS = ("Declaration", "make")
"""What a plugin has that is chosen in the YAML.

`Declaration` is a model derived from the base of its place, such as `EmbedderBase`, whose
`provider` (or `type`, or `strategy`) is a Literal of the entry point's name; its fields are the
keys that the YAML may say. `make(declaration, environment)` makes what is declared;
`environment.fill` fills in templates, `environment.root` is the project folder.
"""

# Lorebind's own kinds stand in the same table of words and declarations, but are no entry points:
# a checkout, a zip file or a frozen program without metadata would have no embedder, and type
# checkers would know none of the kinds.


class Open:
    """In `Annotated[…]` after the built-in declarations of a place: plugins may be added to them.

    A plugin is loaded when a file chooses it by its word. Where nothing is installed the place is
    what it would be without this. The union with all plugins is only made for schemas and messages.
    """

    def __init__(self, group: plugins.Group, base: type[Declaration], built_in: Any) -> None:
        """
        Args:
            group: the entry-point group.
            base: what a plugin's declaration is derived from; its `kind_key` chooses.
            built_in: the declarations of Lorebind itself, one or a union.
        """
        self.group = group
        self.base = base
        self.kinds: tuple[type[Declaration], ...] = get_args(built_in) or (built_in,)
        PLACES[group] = self  # type: ignore[assignment]

    @functools.cached_property
    def words(self) -> dict[str, type[Declaration]]:
        """The built-in kinds, each with its declaration."""
        return {word: kind for kind in self.kinds for word in kind_words(kind)}

    @property
    def built_in(self) -> Any:
        return self.words

    def kind(self, word: str) -> Any:
        return self.plugin(word)

    @property
    def tells_kinds(self) -> bool:
        """Whether pydantic's paths hold the word that chose a declaration of this place."""
        return len(self.kinds) > 1 or bool(plugins.offers(self.group))

    def plugin(self, word: str) -> Any:
        """The plugin that a word chooses; None where it is a word of Lorebind or of nobody.

        Raises:
            PluginError: it cannot be loaded, is not what its group wants, or another claims the
                word too.
        """
        if word in self.words and word not in plugins.offers(self.group):
            return None
        offer = plugins.offered(self.group, word, dict.fromkeys(self.words, ""))
        if offer is None:
            return None
        found = plugins.load(offer, MEMBERS)
        kind, key = found.Declaration, self.base.kind_key
        if not (isinstance(kind, type) and issubclass(kind, self.base)):
            raise PluginError(
                f"plugin {offer}: its Declaration is not derived from "
                f"{self.base.__module__}.{self.base.__name__}"
            )
        if key not in kind.model_fields or kind_words(kind) != (word,):
            raise PluginError(
                f"plugin {offer}: its Declaration does not say {key}: Literal[{word!r}]"
            )
        return found

    def union(self) -> Any:
        """The built-in declarations, and those of all plugins that can be loaded."""
        found = list(self.kinds)
        for word in plugins.offers(self.group):
            try:
                plugin = self.plugin(word)
            except PluginError:  # said to whoever chooses it, and by `doctor`
                continue
            found.append(plugin.Declaration)
        return Union[tuple(found)]  # noqa: UP007 - made of a list

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        whatever_it_is = core_schema.wrap_serializer_function_ser_schema(
            lambda value, inner: inner(value), schema=core_schema.any_schema()
        )
        return core_schema.no_info_wrap_validator_function(
            self._validated, handler(source), serialization=whatever_it_is
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        kinds = get_args(self.union())
        if len(kinds) <= len(self.kinds):
            return handler(schema)
        return handler(_adapter(kinds, self.base.kind_key).core_schema)

    def _validated(self, value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
        if not plugins.offers(self.group):
            return handler(value)
        key = self.base.kind_key
        word = value.get(key) if isinstance(value, dict) else getattr(value, key, None)
        try:
            plugin = self.plugin(word) if isinstance(word, str) else None
        except PluginError as error:
            raise RefusedError([Fault(str(error), path=(key,))]) from error
        more = () if plugin is None else (plugin.Declaration,)
        return _adapter((*self.kinds, *more), key).validate_python(value)


def kind_words(kind: type[Declaration]) -> tuple[str, ...]:
    """The words that choose a declaration by its `kind_key`."""
    return get_args(kind.model_fields[kind.kind_key].annotation)


@functools.cache
def _adapter(kinds: tuple[type[Declaration], ...], key: str) -> TypeAdapter[Any]:
    """Declarations told apart by a key; left out, it has the default of the first."""
    usual = kinds[0].model_fields[key].get_default()

    def tag(value: Any) -> Any:
        if isinstance(value, dict):
            return value.get(key, usual)
        return getattr(value, key, None)

    tagged = [Annotated[kind, Tag(word)] for kind in kinds for word in kind_words(kind)]
    union: Any = Annotated[Union[tuple(tagged)], Discriminator(tag)]  # noqa: UP007 - made of a list
    return TypeAdapter(union)
