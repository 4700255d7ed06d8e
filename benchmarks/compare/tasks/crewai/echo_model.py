"""A chat model that needs no key: it answers with the message that it was given."""

from typing import Any

from crewai import BaseLLM


class Echo(BaseLLM):
    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        text = messages if isinstance(messages, str) else messages[-1]["content"]
        return f"Thought: I now can give a great answer\nFinal Answer: {text}"
