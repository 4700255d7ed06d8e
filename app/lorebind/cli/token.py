"""`lorebind token`: who may call the server of a project."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lorebind.cli.options import Output, OutputOption, ProjectOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind.server.state.tokens import Token, Tokens

app = typer.Typer(
    no_args_is_help=True, help="Tokens of `lorebind serve`: who may call it, for which tenants."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the token is called.")]


@app.command()
def create(
    name: NameArgument,
    rights: Annotated[
        Literal["read", "write", "admin"],
        typer.Option(help="What it may do; each may do what the ones before it may."),
    ],
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant",
            metavar="NAME",
            help="A tenant that it is for; repeat it for several. By default the tenant `default`.",
        ),
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="For how many days it is valid. By default for ever."),
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Make a token for callers of the server, and print it once.

    Only a digest of it is kept. As soon as there is a token, servers refuse callers without one.
    """
    from lorebind.cli.printing import print_data, print_line

    with _tokens(project) as tokens:
        made, text = tokens.create(name, rights, tenant or (), expires)
    if output is not Output.table:
        print_data({"token": text, **_shown(made)}, output)
        return
    print_line("send it as `Authorization: Bearer …`; it is not shown again", stderr=True)
    print(text)


@app.command("list")
def list_(project: ProjectOption = ".", output: OutputOption = Output.table) -> None:
    """List the tokens by name, without what callers send."""
    from lorebind.cli.printing import print_data, print_line, print_table

    with _tokens(project) as tokens:
        shown = [_shown(token) for token in tokens.all()]
    if output is not Output.table:
        print_data({"tokens": shown}, output)
    elif not shown:
        print_line("there are no tokens; make one with: lorebind token create NAME --rights read")
    else:
        print_table(("name", "rights", "tenants", "created", "expires"), map(_row, shown))


@app.command()
def revoke(
    name: NameArgument, project: ProjectOption = ".", output: OutputOption = Output.table
) -> None:
    """Delete a token. Running servers refuse it within a second."""
    from lorebind.cli.printing import print_data, print_line

    with _tokens(project) as tokens:
        revoked = _shown(tokens.revoke(name))
    if output is not Output.table:
        print_data(revoked, output)
    else:
        print_line(f"{name} is revoked")


@contextmanager
def _tokens(project: str) -> Iterator[Tokens]:
    """The tokens of a project. Of its variables only those of `server: state` need be set."""
    from lorebind.server.state.tables import open_state
    from lorebind.server.state.tokens import Tokens
    from lorebind_knowledge.configuration import load_project

    config = load_project(project, need_variables=False)
    database = open_state(config.project.server.state, config.environment)
    try:
        yield Tokens(database)
    finally:
        database.close()


def _shown(token: Token) -> dict[str, Any]:
    """What may be told of a token."""
    return {
        "id": token.id,
        "name": token.name,
        "rights": token.rights,
        "tenants": list(token.tenants),
        "created_at": _time(token.created_at),
        "expires_at": None if token.expires_at is None else _time(token.expires_at),
        "expired": token.is_expired,
    }


def _row(shown: dict[str, Any]) -> tuple[str, ...]:
    expires = shown["expires_at"] or "never"
    return (
        shown["name"],
        shown["rights"],
        ", ".join(shown["tenants"]),
        shown["created_at"],
        f"{expires} (expired)" if shown["expired"] else expires,
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
