"""The workflow runtime: declared graphs of tasks, run on LangGraph threads."""
