"""A server of the Model Context Protocol (MCP), whose tools an agent can call."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Matching, Settings, refused
from lorebind_config.declarations.values import TextMap, WebAddress


class McpServerDeclaration(Settings):
    """A server: a command that speaks MCP over standard input and output, or a URL.

    A command runs in the project folder for the time of an answer, and needs trust, as all code
    does. It gets `env`, and of the environment only names such as `PATH` and `HOME`.
    """

    templated: ClassVar[tuple[str, ...]] = ("command", "args", "env", "url", "headers")

    command: str | None = Field(None, min_length=1, description="The program to run.")
    args: list[str] = Field(default_factory=list, description="command: its arguments.")
    env: TextMap = Field(default_factory=dict, description="command: variables to set for it.")
    url: WebAddress | None = Field(None, description="The URL of a server over streamable HTTP.")
    headers: TextMap = Field(
        default_factory=dict, description="url: headers to send, such as `Authorization`."
    )
    tools: list[str] = Field(
        default_factory=list,
        description="The names of the tools that the agent can call. By default all.",
    )
    prefix: Annotated[
        str,
        Matching(
            r"[A-Za-z0-9_-]{0,32}",
            "{!r} cannot begin the name of a tool",
            "use at most 32 letters, digits, '_' and '-'",
        ),
    ] = Field(
        "",
        description="Put before the names of the tools, as in `shop_`, if two servers have tools "
        "with the same name.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.command is None and self.url is None:
            raise refused("the MCP server has no address", "write either 'command' or 'url'")
        if self.command is not None and self.url is not None:
            raise refused("command and url are both given", "keep one of them", "url")
        other, only = ("url", ("headers",)) if self.url is None else ("command", ("args", "env"))
        for field in only:
            if getattr(self, field):
                raise refused(f"{field} needs {other!r}", f"remove {field}", field)
        return self
