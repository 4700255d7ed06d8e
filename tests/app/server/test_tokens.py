"""`lorebind token`, and the tokens that it creates."""

from __future__ import annotations

import json
import re
import sqlite3
import time

import pytest

from lorebind.server.state.tokens import RIGHTS, Tokens, find_token
from lorebind_config.errors import NotFoundError, UsageError
from tests.app.helpers import Cli
from tests.postgres import Server

from .conftest import serving, write_project

UNSET = """\
name: shop
embedders: [{ id: words, provider: openai, model: m, api_key: "{{ .env.UNSET_KEY }}" }]
knowledge_bases: [{ id: docs, sources: [{ type: markdown_glob, path: "*.md" }] }]
"""


def test_a_token_is_told_once(empty_cli: Cli) -> None:
    """Only the digest is stored; `list` shows neither, and the command needs no variables."""
    empty_cli.write({"lorebind.yaml": UNSET})
    done = empty_cli("token", "create", "ci", "--rights", "write")
    assert done.code == 0
    text = done.out.removesuffix("\n")
    assert re.fullmatch(r"lorebind_[0-9a-f]{12}_[\w-]{43}", text)
    assert "it is not shown again" in done.err
    secret = text.split("_", 2)[2]

    more = ["--tenant", "acme", "--tenant", "b c", "--expires", "0.5", "-o", "json"]
    data = json.loads(empty_cli("token", "create", "all", "--rights", "admin", *more).out)
    assert data["token"].startswith(f"lorebind_{data['id']}_")
    assert (data["rights"], data["tenants"]) == ("admin", ["acme", "b c"])
    assert data["expires_at"] > data["created_at"]

    listed = json.loads(empty_cli("token", "list", "-o", "json").out)["tokens"]
    fields = {"id", "name", "rights", "tenants", "created_at", "expires_at", "expired"}
    assert [set(row) for row in listed] == [fields, fields]
    assert [row["name"] for row in listed] == ["all", "ci"]
    table = empty_cli("token", "list").out
    assert re.search(r"(?m)^ci +write +default +\S+ +never$", table)
    for printed in (table, json.dumps(listed)):
        assert secret not in printed
    file = b"".join(path.read_bytes() for path in empty_cli.root.glob(".lorebind/server.db*"))
    assert secret.encode() not in file
    with sqlite3.connect(empty_cli.root / ".lorebind" / "server.db") as db:
        for (digest,) in db.execute("select digest from server_tokens"):
            assert digest not in table + json.dumps(listed)
    db.close()

    assert empty_cli("token", "revoke", "ci").out == "ci is revoked\n"
    again = empty_cli("token", "revoke", "ci")
    assert (again.code, again.err) == (2, "lorebind: there is no token 'ci'; known: all\n")


def test_a_token_names_its_tenant_where_one_is_required(empty_cli: Cli) -> None:
    """With `tenancy: required`, no token is for `default` unless it says so."""
    empty_cli.write({"lorebind.yaml": f"{UNSET}tenancy: required\n"})
    refused = empty_cli("token", "create", "ci", "--rights", "read")
    assert (refused.code, "--tenant NAME" in refused.err) == (2, True)
    assert "there are no tokens" in empty_cli("token", "list").out
    done = empty_cli("token", "create", "ci", "--rights", "read", "--tenant", "default")
    assert (done.code, done.out.startswith("lorebind_")) == (0, True)


def test_without_tokens_it_is_said_how_to_make_one(empty_cli: Cli) -> None:
    empty_cli.write({"lorebind.yaml": UNSET})
    listed = empty_cli("token", "list").out
    assert listed.endswith("create one with: lorebind token create NAME --rights read\n")


def test_the_variable_of_the_state_is_needed(empty_cli: Cli) -> None:
    state = 'server: { state: { dsn: "{{ .env.UNSET_DSN }}" } }\n'
    empty_cli.write({"lorebind.yaml": UNSET + state})
    done = empty_cli("token", "list")
    assert done.code == 2
    assert "variable UNSET_DSN is not set" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "Missing option '--rights'"),
        (["a", "--rights", "all"], "'all' is not one of"),
        (["taken", "--rights", "read"], "the token 'taken' already exists; revoke it"),
        (["", "--rights", "read"], "need printable names"),
        (["a\nb", "--rights", "read"], "need printable names"),
        (["x" * 201, "--rights", "read"], "at most 200 characters"),
        (["a", "--rights", "read", "--tenant", ""], "need printable names"),
        (["a", "--rights", "read", "--expires", "0"], "up to 36500 days, and more than 0; got 0"),
        (["a", "--rights", "read", "--expires", "nan"], "got nan"),
        (["a", "--rights", "read", "--expires", "1e300"], "got 1e+300"),
    ],
)
def test_what_cannot_be_made(empty_cli: Cli, arguments: list[str], message: str) -> None:
    empty_cli.write({"lorebind.yaml": UNSET})
    empty_cli("token", "create", "taken", "--rights", "read")
    done = empty_cli("token", "create", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(json.loads(empty_cli("token", "list", "-o", "json").out)["tokens"]) == 1


def test_expired_tokens_are_shown_as_such(empty_cli: Cli) -> None:
    empty_cli.write({"lorebind.yaml": UNSET})
    empty_cli("token", "create", "old", "--rights", "read", "--expires", "1e-9")
    assert re.search(r"(?m)^old .* \(expired\)$", empty_cli("token", "list").out)
    (old,) = json.loads(empty_cli("token", "list", "-o", "json").out)["tokens"]
    assert old["expired"] is True


def test_each_right_has_those_before_it(tokens: Tokens) -> None:
    for rights in RIGHTS:
        token, _ = tokens.create(rights, rights)
        may = [right for right in RIGHTS if token.may(right)]
        assert may == list(RIGHTS[: RIGHTS.index(rights) + 1])


def test_a_token_is_found_by_its_text_only(tokens: Tokens) -> None:
    (token, text), (other, _) = tokens.create("one", "read"), tokens.create("other", "read")
    by_id = {token.id: token, other.id: other}
    assert find_token(text, by_id) == token
    assert find_token(text.replace(token.id, other.id), by_id) is None
    assert find_token(text, {}) is None
    expired, text = tokens.create("expired", "read", expires_in_days=1e-9)
    time.sleep(0.001)
    assert find_token(text, {expired.id: expired}) is None


def test_tokens_in_postgres(postgres: Server, empty_cli: Cli, socket_enabled: None) -> None:
    """Several servers share the tokens; a name can be used only once."""
    dsn = postgres.dsn()
    state = {"state": {"dsn": "{{ .env.STATE }}", "schema": "tokens_test"}}
    empty_cli.write({".env": f"STATE={dsn}\n", "lorebind.yaml": UNSET + f"server: {state}\n"})
    text = empty_cli("token", "create", "one", "--rights", "read").out.strip()
    assert empty_cli("token", "create", "one", "--rights", "read").code == 2
    (listed,) = json.loads(empty_cli("token", "list", "-o", "json").out)["tokens"]
    assert listed["id"] == text.split("_")[1]
    assert empty_cli("token", "revoke", "one").code == 0
    assert json.loads(empty_cli("token", "list", "-o", "json").out)["tokens"] == []


def test_running_servers_hear_of_tokens(empty_cli: Cli) -> None:
    """A new token is accepted immediately, and a revoked one is refused within a second."""
    write_project(empty_cli.root)
    empty_cli("token", "create", "first", "--rights", "read")
    with serving(empty_cli.root) as server, server.client() as client:
        assert client.get("/knowledge-bases").status_code == 401
        text = empty_cli("token", "create", "ci", "--rights", "read").out.strip()
        client.headers["Authorization"] = f"Bearer {text}"
        assert client.get("/knowledge-bases").status_code == 200
        for name in ("ci", "first"):
            assert empty_cli("token", "revoke", name).code == 0
        revoked = began = time.monotonic()
        while client.get("/knowledge-bases").status_code == 200:
            # A request that began later is refused, however long it took.
            assert began < revoked + 1
            began = time.monotonic()
        assert client.get("/knowledge-bases").status_code == 401
        del client.headers["Authorization"]
        assert client.get("/knowledge-bases").status_code == 401  # even if it was the last one


def test_errors_name_what_there_is(tokens: Tokens) -> None:
    tokens.create("production", "read")
    with pytest.raises(NotFoundError, match="did you mean 'production'"):
        tokens.revoke("producton")
    with pytest.raises(UsageError, match="unknown rights 'raed'; did you mean 'read'"):
        tokens.create("x", "raed")  # type: ignore[arg-type]
