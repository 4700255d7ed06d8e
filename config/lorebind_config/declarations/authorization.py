"""`server: {authorization: …}`: an issuer whose tokens the server accepts besides its own."""

from collections.abc import Iterator

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE, Declaration, Wants
from lorebind_config.declarations.values import WebAddress


class AuthorizationDeclaration(Declaration):
    """An authorization server, such as Keycloak, Auth0 or Entra ID, and how to read its tokens.

    Its access tokens are JSON Web Tokens (RFC 9068), signed with a private key.
    """

    label = "authorization"
    templated = ("issuer", "audience", "jwks")

    issuer: WebAddress = Field(
        description="The URL of the authorization server, exactly as in the claim `iss`. MCP "
        "clients get their tokens there."
    )
    audience: str | list[str] = Field(
        min_length=1,
        description="The claim `aud` of tokens for this server, or several that are accepted. MCP "
        "clients ask for the public URL of `/mcp`, such as `https://shop.example/mcp`.",
    )
    jwks: str = Field(
        min_length=1,
        description="The public keys of the issuer, as a JSON Web Key Set: its URL, or a file in "
        "the project folder. They are read again every five minutes, and when a token names an "
        "unknown key. A URL must begin with `https://`, except on this machine.",
    )
    tenant_claim: str | None = Field(
        None,
        description="The claim that names the tenant of a caller, or a list of tenants. By "
        "default, all callers are for the tenant `default`. Dots lead into nested claims.",
    )
    rights_claim: str | None = Field(
        None,
        description="The claim that contains `read`, `write` or `admin`, alone or after "
        "`lorebind:`: a list, or words as in `scope`. By default, callers may only read. Dots lead "
        "into nested claims.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if "://" not in self.jwks:
            yield "jwks", "read", OUTSIDE
