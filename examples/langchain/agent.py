"""An agent: passages in each model call, and a tool with which the model searches by itself."""

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from lorebind import Project

with Project.load() as project:
    agent = create_agent(
        project.model(),  # the declared model, or any other chat model of LangChain
        tools=[project.tool("policies")],
        middleware=[project.middleware(agent="operator")],
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    question = "Who may rotate the keys, and who may revoke one?"
    state = agent.invoke({"messages": [("user", question)]}, thread)
    answer = project.citations().invoke(state)

print(answer.text)
for citation in answer.citations:
    print(citation.marker, citation.label)
