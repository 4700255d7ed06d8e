"""The LangChain integration: a retriever, a prompt, a tool and an agent middleware."""
