"""Commands of plugins: the entry points of the group `lorebind.commands`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from lorebind.cli.shared_options import with_shared_options
from lorebind_config import plugins
from lorebind_config.errors import PluginError


class Commands(TyperGroup):
    """Lorebind's own commands, and then those of plugins, which are imported when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *sorted(plugins.offers("commands").keys() - {*own})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _plugin_command(cmd_name)


def _load(offer: plugins.PluginOffer) -> typer.Typer:
    """Return the command of a plugin.

    Raises:
        PluginError: it cannot be imported, or is neither a function nor a `typer.Typer`.
    """
    command = plugins.load(offer, ("__call__",))
    if isinstance(command, typer.Typer):
        return command
    app = typer.Typer(rich_markup_mode=None)
    app.command(offer.name)(with_shared_options(command))
    return app


def _plugin_command(name: str) -> Any:
    offer = plugins.offered("commands", name)
    if offer is None:
        return None
    try:
        app = _load(offer)
    except PluginError as error:
        app = _refusal(name, error)
    command = typer.main.get_command(app)
    command.name = name
    return command


def _refusal(name: str, error: PluginError) -> typer.Typer:
    """Return a command that raises an error, so that the help can still list all commands."""
    app = typer.Typer(rich_markup_mode=None)

    @app.command(name, help=str(error))
    def refuse() -> None:
        raise error

    return app
