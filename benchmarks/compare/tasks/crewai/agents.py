"""Two agents read the same knowledge with different limits: `python agents.py QUESTION`."""

import sys
from pathlib import Path

from crewai import Agent, Crew, Task
from crewai.knowledge.knowledge_config import KnowledgeConfig
from crewai.knowledge.source.text_file_knowledge_source import TextFileKnowledgeSource
from echo_model import Echo
from embedding import EMBEDDER

source = TextFileKnowledgeSource(
    file_paths=sorted(Path("docs").rglob("*.md")), chunk_size=600, chunk_overlap=90
)
triage = Agent(
    role="triage",
    goal="Find the page that answers",
    backstory="You know the documentation.",
    llm=Echo(model="echo"),
    knowledge_config=KnowledgeConfig(results_limit=2, score_threshold=0.65),
)
writer = Agent(
    role="writer",
    goal="Answer from the documentation",
    backstory="You know the documentation.",
    llm=Echo(model="echo"),
    knowledge_config=KnowledgeConfig(results_limit=6, score_threshold=0.0),
)
tasks = [
    Task(description=sys.argv[1], expected_output="An answer", agent=agent)
    for agent in (triage, writer)
]
Crew(agents=[triage, writer], tasks=tasks, knowledge_sources=[source], embedder=EMBEDDER).kickoff()
for agent in (triage, writer):
    print(agent.role, len(agent.crew_knowledge_context or ""), "characters of knowledge")
