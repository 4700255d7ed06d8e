"""Reads the types of declarations: their keys, kinds, items, and the annotations around them."""

from __future__ import annotations

import types
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from lorebind_config.declarations.base import Declaration, written_names
from lorebind_config.declarations.kinds import KindRegistry, kind_words
from lorebind_config.errors import nearest


def keys(declaration: type[Declaration] | None) -> list[str]:
    """Return all keys that a declaration may have, including alternative names of fields."""
    if declaration is None:
        return []
    fields = declaration.model_fields.items()
    return [key for name, info in fields for key in written_names(name, info)]


def fields_of(declaration: type[Declaration]) -> dict[str, FieldInfo]:
    """Return the fields of a declaration with their types.

    Until its validator is built, the types that are defined after the declaration are missing.
    """
    declaration.model_rebuild()
    return declaration.model_fields


def kinds(declaration: type[Declaration]) -> tuple[str, ...]:
    """Return the words of `provider` or `type` that choose a declaration, else its class name."""
    if not declaration.kind_key:
        return (declaration.__name__,)
    return kind_words(declaration)


def kind_meant(
    choices: list[type[Declaration]], data: dict[str, Any]
) -> tuple[type[Declaration] | None, str]:
    """Return the declaration that the data chooses, and its word; None if no word is near.

    For an unknown word, it is the nearest declaration, which the message suggests too.
    """
    by_word = {word: choice for choice in choices for word in kinds(choice)}
    if not choices[0].kind_key:
        marked = (choice for choice in choices if choice.marked_by and choice.marked_by in data)
        meant = next(marked, next(choice for choice in choices if not choice.marked_by))
        return meant, meant.__name__
    fallback = choices[0].model_fields[choices[0].kind_key].default
    written = data.get(choices[0].kind_key, fallback)
    word = nearest(written, by_word) if isinstance(written, str) else None
    return (by_word[word], word) if word is not None else (None, "")


def inner(expected: Any) -> Any:
    """Return the type of the items of a list or of the values of a mapping; None for others."""
    arguments = get_args(expected)
    return arguments[-1] if get_origin(expected) in (list, dict) and arguments else None


def annotation_of(info: FieldInfo) -> Any:
    """Return the full annotation of a field, whose type and metadata pydantic keeps apart."""
    return Annotated[info.annotation, None, *info.metadata]


def unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without `Annotated` and `| None`, and the metadata of `Annotated`.

    If a word chooses the kind, the type is the union of all kinds.
    """
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += tuple(more)
            places = [mark for mark in more if isinstance(mark, KindRegistry)]
            annotation = places[0].union() if places else annotation
            continue
        if get_origin(annotation) in (Union, types.UnionType):
            others = [part for part in get_args(annotation) if part is not type(None)]
            if len(others) == 1:
                annotation = others[0]
                continue
        return annotation, metadata


def declarations(expected: Any) -> list[type[Declaration]]:
    """Return the declarations in a type; several if a key chooses one of them."""
    parts = get_args(expected) if get_origin(expected) in (Union, types.UnionType) else [expected]
    bare = [unwrapped(part)[0] for part in parts]
    return [part for part in bare if isinstance(part, type) and issubclass(part, Declaration)]
