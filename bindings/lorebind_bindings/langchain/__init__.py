"""What LangChain sees of the bindings: a retriever, a prompt, a tool, and an agent's middleware."""
