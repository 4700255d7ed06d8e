"""`langchain`: vectors in any `VectorStore` of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Fault, RefusedError
from lorebind_knowledge.declarations.catalogs import CatalogDeclaration, refuse_catalog_in_memory
from lorebind_knowledge.declarations.parts import PartsMap
from lorebind_knowledge.declarations.values import ClassPath, FactoryPath
from lorebind_knowledge.declarations.vector_dbs import CATALOG, VectorDBBase
from lorebind_knowledge.project_code import derives

if TYPE_CHECKING:
    from lorebind_knowledge.configuration.make_part import PartEnvironment
    from lorebind_knowledge.stores.base import VectorStore


class LangChainVectorDB(VectorDBBase):
    """Any `VectorStore` of LangChain, named by its `class` or by the `factory` that makes it."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_maker`
            "oneOf": [
                {"required": [key], "properties": {key: {"type": "string"}}}
                for key in ("class", "factory")
            ]
        }
    )

    type: Literal["langchain"] = Field(description="A VectorStore of LangChain.")
    class_path: ClassPath | None = Field(
        None,
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    factory: FactoryPath | None = Field(
        None,
        description=(
            "A function or class method that makes the VectorStore, as "
            "'package.module:function' or 'package.module:Class.method'. It needs a parameter for "
            "the embedder."
        ),
    )
    config: PartsMap = Field(
        default_factory=dict,
        description=(
            "Arguments of the class or factory, by name. An argument that is an object, such as an "
            "engine, is written as '{ factory: …, config: {…} }' or '{ class: …, config: {…} }'."
        ),
    )
    persistent: bool | None = Field(
        None,
        description=(
            "Whether the data stay when the process ends. By default true, except for "
            "InMemoryVectorStore."
        ),
    )
    catalog: CatalogDeclaration | None = Field(None, description=CATALOG)

    @model_validator(mode="after")
    def _one_maker(self) -> LangChainVectorDB:
        if (self.class_path is None) == (self.factory is None):
            raise RefusedError(
                [Fault("nothing says what makes it", "write either 'class' or 'factory'")]
                if self.factory is None
                else [Fault("class and factory are both given", "keep one of them", ("factory",))]
            )
        return self

    @model_validator(mode="after")
    def _catalog_lasts_as_long(self) -> LangChainVectorDB:
        if self.persistent is False:
            refuse_catalog_in_memory(self.catalog)
        return self


Declaration = LangChainVectorDB


def make(declaration: LangChainVectorDB, environment: PartEnvironment) -> VectorStore:
    from langchain_core.vectorstores import InMemoryVectorStore

    from lorebind_knowledge.stores.langchain.recipe import recipe_of
    from lorebind_knowledge.stores.langchain.store import LangChainStore

    recipe = recipe_of(declaration, environment)
    in_memory = derives(getattr(recipe.make, "__self__", recipe.make), InMemoryVectorStore)
    persistent = not in_memory if declaration.persistent is None else declaration.persistent
    return LangChainStore(recipe, exact=in_memory, persistent=persistent)
