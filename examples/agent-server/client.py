"""Ask the agent server a question, and approve the answer."""

import asyncio
import sys

from langgraph_sdk import get_client


async def main(url: str) -> None:
    client = get_client(url=url)
    thread = (await client.threads.create())["thread_id"]
    question = {"question": "When can I return an item?"}
    asked = await client.runs.wait(thread, "answer", input={"input": question})
    print(asked["__interrupt__"][0]["value"]["waiting"][0]["prompt"])
    approved = {"resume": {"approve": {"ok": True}}}
    print((await client.runs.wait(thread, "answer", command=approved))["output"])


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:2024"))
