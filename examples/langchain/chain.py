"""A chain: retriever, prompt, model."""

from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnablePassthrough

from lorebind import Project
from lorebind_prompts import ExtractiveChatModel

model = ExtractiveChatModel()  # or any other chat model of LangChain

with Project.load() as project:
    # The prompt itself searches the project's bindings …
    chain = project.prompt() | model | StrOutputParser()
    print(chain.invoke("How often are keys rotated?"))

    # … or takes the documents of any retriever.
    inputs = {"documents": project.retriever("policies"), "question": RunnablePassthrough()}
    chain = inputs | project.prompt("policies") | model | StrOutputParser()
    print(chain.invoke("How long are backups kept?"))
