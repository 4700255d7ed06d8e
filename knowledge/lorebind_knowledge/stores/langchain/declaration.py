"""`langchain`: vectors in any LangChain `VectorStore`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.checks.named_code import named_class, named_factory, named_part
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.objects import ClassOrObject, LiveObject, PartsMap, parts
from lorebind_config.declarations.values import FactoryPath
from lorebind_config.declarations.vector_dbs import (
    CATALOG,
    CatalogDeclaration,
    VectorDBBase,
    refuse_catalog_in_memory,
)
from lorebind_config.errors import StoreError
from lorebind_config.project_code import derives
from lorebind_knowledge.stores.langchain.recipe import EMBEDDING_PARAMETERS, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.embeddings import Embeddings

    from lorebind_config.declarations.base import Path
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_config.templates import Environment
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.langchain.existing import ExistingStore


_WRITTEN = ("persistent", "catalog", "embedding_cache")
"""Settings that apply only to a database that Lorebind writes."""


class LangChainVectorDB(VectorDBBase):
    """Any LangChain `VectorStore`, declared by its `class` or by the `factory` that makes it."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_maker`
            "oneOf": [
                {"required": [key], "properties": {key: {"type": "string"}}}
                for key in ("class", "factory")
            ]
        }
    )

    type: Literal["langchain"] = Field(description="Use any LangChain VectorStore.")
    class_path: ClassOrObject | None = Field(
        None,
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    factory: FactoryPath | None = Field(
        None,
        description=(
            "A function or class method that makes the VectorStore, as "
            "'package.module:function' or 'package.module:Class.method'. It needs a parameter for "
            "the embedder, unless another program fills the store."
        ),
    )
    config: PartsMap = Field(
        default_factory=dict,
        description=(
            "Arguments of the class or factory, by name. An argument that is an object, such as an "
            "engine, is written as '{ factory: …, config: {…} }' or '{ class: …, config: {…} }'."
        ),
    )
    existing: bool = Field(
        False,
        description=(
            "Whether another program fills it. If so, Lorebind only searches it and never "
            "writes to it: a knowledge base in it has no sources."
        ),
    )
    persistent: bool | None = Field(
        None,
        description=(
            "Whether the data stays when the process ends. By default true, except for "
            "InMemoryVectorStore."
        ),
    )
    catalog: CatalogDeclaration | None = Field(None, description=CATALOG)

    @model_validator(mode="after")
    def _one_maker(self) -> LangChainVectorDB:
        if (self.class_path is None) == (self.factory is None):
            raise RefusedError(
                [
                    Fault(
                        f"{self.label} {self.id!r} has neither class nor factory",
                        "write one of them",
                    )
                ]
                if self.factory is None
                else [Fault("class and factory are both given", "keep one of them", ("factory",))]
            )
        return self

    @model_validator(mode="after")
    def _existing_has_no_catalog(self) -> LangChainVectorDB:
        without_effect = [name for name in _WRITTEN if name in self.model_fields_set]
        if self.existing and without_effect:
            raise RefusedError(
                Fault(f"{name} has no effect if another program fills it", "remove it", (name,))
                for name in without_effect
            )
        return self

    @property
    def is_existing(self) -> bool:
        return self.existing

    @model_validator(mode="after")
    def _catalog_lasts_as_long(self) -> LangChainVectorDB:
        if self.persistent is False:
            refuse_catalog_in_memory(self.catalog)
        return self


Declaration = LangChainVectorDB


def make(declaration: LangChainVectorDB, environment: PartEnvironment) -> VectorStore:
    from langchain_core.vectorstores import InMemoryVectorStore

    from lorebind_knowledge.stores.langchain.adapter import adopted
    from lorebind_knowledge.stores.langchain.store import LangChainStore

    recipe = recipe_of(declaration, environment)
    kind = getattr(recipe.make, "__self__", recipe.make)
    if isinstance(declaration.class_path, LiveObject):
        held = recipe.make()
        kind, recipe = type(held), replace(recipe, make=partial(adopted, held))
    in_memory = derives(kind, InMemoryVectorStore)
    persistent = not in_memory if declaration.persistent is None else declaration.persistent
    return LangChainStore(recipe, exact=in_memory, persistent=persistent)


def make_existing(
    declaration: LangChainVectorDB,
    environment: PartEnvironment,
    embeddings: Callable[[], Embeddings],
) -> ExistingStore:
    """Make a store that another program fills.

    Args:
        declaration: the declaration.
        environment: gives the values of templates in its settings.
        embeddings: returns the `Embeddings` for a class or a factory that takes one, and for an
            object that does not expose its own.

    Raises:
        MissingVariableError: a variable that the declaration uses is not set.
        UsageError, StoreError: see `recipe_of`.
    """
    from lorebind_knowledge.stores.langchain.existing import ExistingStore

    refuse_unset(declaration, environment)
    return ExistingStore(recipe_of(declaration, environment), embeddings)


def recipe_of(declaration: LangChainVectorDB, environment: Environment) -> Recipe:
    """Import and check the class or function of a declaration, without calling it.

    Raises:
        UsageError: something cannot be imported.
        StoreError: something is neither a suitable class nor a suitable function.
    """
    from langchain_core.vectorstores import VectorStore

    if declaration.factory is None:
        expected = "a class derived from LangChain's VectorStore, or a function under 'factory'"
        make = named_class(declaration, environment, expected, VectorStore, failure=StoreError)
    else:
        make = named_factory(
            declaration,
            environment,
            "a class method",
            takes=() if declaration.existing else EMBEDDING_PARAMETERS,
            failure=StoreError,
            place=("factory",),
        )
    settings = environment.fill(declaration.config)

    def recipe(name: str, make: Callable[..., Any], filled: Any, written: Any, at: Path) -> Recipe:
        """Return a recipe with the recipes of its arguments; `at` is the settings' path."""
        recipes = {}
        for argument, key in parts(written):
            part, values = written[argument], filled[argument]
            makes = named_part(declaration, environment, (*at, argument, key), StoreError)
            below = (*at, argument, "config")
            recipes[argument] = recipe(
                part[key], makes, values.get("config", {}), part.get("config", {}), below
            )
        return Recipe(name, make, filled, written, recipes)

    path = declaration.factory or declaration.class_path
    return recipe(str(path), make, settings, declaration.config, ("config",))
