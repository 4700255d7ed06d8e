"""The runtime of workflows: a declared graph of tasks, run on LangGraph's threads."""
