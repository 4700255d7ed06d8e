"""Arguments that are objects: `{factory: …, config: {…}}` or `{class: …, config: {…}}` in settings.

YAML cannot express an engine or a client, so it names the code that creates one. Like all named
code, it is recognized by its type `CodePath` and needs the same trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from lorebind_config.declarations.base import Fault, Path, RefusedError
from lorebind_config.declarations.values import ConfigMap, class_path, factory_path

_READ = {"class": class_path, "factory": factory_path}


def parts(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the arguments to create: the name of each, and the key that names its code."""
    for name, value in settings.items():
        if isinstance(value, dict) and value.keys() <= {"config", *_READ}:
            yield from ((name, key) for key in _READ if key in value)


def _marked(settings: dict[str, Any], at: Path = ()) -> dict[str, Any]:
    marked: dict[str, Any] = {}
    for name, key in parts(settings):
        if name in marked:
            raise RefusedError([Fault("class and factory are both given", "keep one", (*at, name))])
        part = marked[name] = dict(settings[name])
        if not isinstance(part[key], str) or not isinstance(part.get("config", {}), dict):
            hint = f"write {{ {key}: 'package.module:Name', config: {{ … }} }}"
            raise RefusedError([Fault(f"{name} cannot be created", hint, (*at, name))])
        try:
            part[key] = _READ[key](part[key])
        except RefusedError as error:
            raise RefusedError([Fault(str(error), path=(*at, name, key))]) from None
        if "config" in part:
            part["config"] = _marked(part["config"], (*at, name, "config"))
    return settings | marked


PartsMap = Annotated[ConfigMap, AfterValidator(_marked)]
"""Settings passed on unchanged, except for arguments that are created from code."""
