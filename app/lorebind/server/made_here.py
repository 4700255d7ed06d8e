"""Check knowledge bases created over the API: they may use nothing that needs the owner's trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind.server.bodies import check_texts
from lorebind_knowledge.configuration.at_run_time import pointer, read_knowledge_base
from lorebind_knowledge.configuration.template_checks import texts
from lorebind_knowledge.configuration.templates import looks_like_one
from lorebind_knowledge.errors import ConfigurationError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations.base import Path
    from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration

SOURCES = ("inline", "url", "media_transcript")
_CODE = ("class", "factory")
_FETCH = ("allow", "headers")


def read_made(
    config: LoadedProject, kb_id: str, data: Mapping[str, Any]
) -> KnowledgeBaseDeclaration:
    """Read a knowledge base that a caller of the API declares.

    Args:
        config: the project, without the knowledge bases created over the API.
        kb_id: its id, which `data` need not repeat.
        data: the declaration, with the keys of the YAML.

    Raises:
        ConfigurationError: the declaration has problems; the error lists all of them, and the
            `file` of each is a JSON pointer.
    """
    found = list(_refused(kb_id, data))
    if found:
        raise ConfigurationError(found)
    return read_knowledge_base(config, {**data, "id": kb_id})


def _refused(kb_id: str, data: Mapping[str, Any]) -> Iterator[Problem]:
    try:
        check_texts(data)
    except ValueError as error:
        yield _problem((), str(error), "")
        return
    if data.get("id", kb_id) != kb_id:
        yield _problem(("id",), "it is not the id in the path", "omit it")
    for path, text in texts(data):
        if looks_like_one(text):
            message = "a template is not possible here, it would read variables of the server"
            yield _problem(path, message, "write the value itself")
    for path, key in _keys(data):
        if key in _CODE:
            message = f"{key!r} is not possible here, it would run code of the server"
            yield _problem((*path, key), message, "declare it in lorebind.yaml")
    sources = data.get("sources")
    for number, source in enumerate(sources if isinstance(sources, list) else []):
        yield from _source(("sources", number), source)


def _source(path: Path, source: Any) -> Iterator[Problem]:
    if not isinstance(source, dict):
        return
    kind = source.get("type")
    if isinstance(kind, str) and kind not in SOURCES:
        message = f"source type {kind!r} is not possible here, it would read files of the server"
        yield _problem((*path, "type"), message, did_you_mean(kind, SOURCES))
    if kind == "media_transcript" and "path" in source:
        message = "'path' is not possible here, it would read files of the server"
        yield _problem((*path, "path"), message, "name it by 'url'")
    fetch = source.get("fetch")
    for key in _FETCH:
        if isinstance(fetch, dict) and key in fetch:
            message = f"'fetch.{key}' is not possible here"
            yield _problem((*path, "fetch", key), message, "declare it in lorebind.yaml")


def _keys(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every key of nested mappings, each with the path of its mapping."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield path, key
            yield from _keys(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _keys(item, (*path, index))


def _problem(path: Path, message: str, hint: str) -> Problem:
    return Problem(pointer(path), 0, 0, message, hint)
