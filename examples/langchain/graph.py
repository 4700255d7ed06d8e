"""A node of a LangGraph graph."""

import asyncio
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from lorebind import Project


class State(TypedDict):
    question: str
    answer: str
    sources: list[str]


async def main() -> None:
    async with Project.load() as project:

        async def reply(state: State) -> dict[str, object]:
            answer = await project.agenerate(state["question"], "handbook")
            sources = [f"{citation.marker} {citation.label}" for citation in answer.citations]
            return {"answer": answer.text, "sources": sources}

        graph = StateGraph(State)
        graph.add_node("reply", reply)
        graph.add_edge(START, "reply")
        graph.add_edge("reply", END)
        state = await graph.compile().ainvoke({"question": "What is done when a key has leaked?"})
        print(state["answer"], *state["sources"], sep="\n")


asyncio.run(main())
