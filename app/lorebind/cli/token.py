"""`lorebind token`: manage the tokens for the server of a project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lorebind.cli.opening import load_config
from lorebind.cli.options import Output, OutputOption, ProjectOption, command_group
from lorebind.cli.printing import print_data, print_table, utc_time
from lorebind.cli.terminal import print_line

if TYPE_CHECKING:
    from lorebind.server.state.tokens import Token, Tokens
    from lorebind_config.reading.loaded import LoadedProject

app = command_group("Manage tokens of `lorebind serve`, their rights and tenants.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]


@app.command()
def create(
    name: NameArgument,
    rights: Annotated[
        Literal["read", "write", "admin"],
        typer.Option(help="The rights of the token; write includes read, admin includes both."),
    ],
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant",
            metavar="NAME",
            help="A tenant that the token may use; may be repeated. Default: the tenant `default`, "
            "unless the project has `tenancy: required`.",
        ),
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="Days until the token expires. Default: never."),
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Create a token for callers of the server, and print it once.

    Only its digest is stored. Once a token exists, servers refuse callers without one.
    """
    config = load_config(project)
    tenants = tenant or [config.tenant]  # an error if the project requires a name
    with _tokens(config) as tokens:
        token, text = tokens.create(name, rights, tenants, expires)
    if output is not Output.table:
        print_data({"token": text, **_token_data(token)}, output)
        return
    print_line("send it as `Authorization: Bearer …`; it is not shown again", stderr=True)
    print(text)


@app.command("list")
def list_(project: ProjectOption = ".", output: OutputOption = Output.table) -> None:
    """List the tokens by name, without their secret values."""
    with _tokens(load_config(project)) as tokens:
        rows = [_token_data(token) for token in tokens.all()]
    if output is not Output.table:
        print_data({"tokens": rows}, output)
    elif not rows:
        print_line("there are no tokens; create one with: lorebind token create NAME --rights read")
    else:
        print_table(("name", "rights", "tenants", "created", "expires"), map(_row, rows))


@app.command()
def revoke(
    name: NameArgument, project: ProjectOption = ".", output: OutputOption = Output.table
) -> None:
    """Delete a token. Running servers refuse it within a second."""
    with _tokens(load_config(project)) as tokens:
        revoked = _token_data(tokens.revoke(name))
    if output is not Output.table:
        print_data(revoked, output)
    else:
        print_line(f"{name} is revoked")


@contextmanager
def _tokens(config: LoadedProject) -> Iterator[Tokens]:
    """Open the tokens of a project, which needs no variables but those of its place."""
    # As in `load_config`.
    from lorebind.server.state.tables import open_state
    from lorebind.server.state.tokens import Tokens

    database = open_state(config)
    try:
        yield Tokens(database)
    finally:
        database.close()


def _token_data(token: Token) -> dict[str, Any]:
    """Return the public data of a token."""
    return {
        "id": token.id,
        "name": token.name,
        "rights": token.rights,
        "tenants": list(token.tenants),
        "created_at": utc_time(token.created_at),
        "expires_at": None if token.expires_at is None else utc_time(token.expires_at),
        "expired": token.is_expired,
    }


def _row(data: dict[str, Any]) -> tuple[str, ...]:
    expires = data["expires_at"] or "never"
    return (
        data["name"],
        data["rights"],
        ", ".join(data["tenants"]),
        data["created_at"],
        f"{expires} (expired)" if data["expired"] else expires,
    )
