"""One question, answered: the prompt of the model, and the checks of its answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from lorebind_bindings import Answer, Request, answer, bind
from lorebind_config.declarations.retrieval import NOTHING_FOUND
from lorebind_config.errors import EmbedderError, ModelError, NotIngestedError, StoreError
from lorebind_config.reading.loading import load_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.engine import ingest
from lorebind_prompts import parse
from lorebind_prompts.rendering.base import WEAK
from tests.bindings.helpers import resolve

from .helpers import PARTS, Scripted, WordCounter, write

Ask = Callable[..., Awaitable[Answer]]

QUESTION = "How do I rotate the keys?"

DOCUMENTS = {
    "guide/keys.md": "# Keys\n\nRotate the keys with the rotate command every ninety days.\n",
    "guide/more.md": "# More\n\nThe keys are rotated in the console, and old keys end at once.\n",
    "rules/keys.md": "# Rules\n\nWho may rotate the keys is written down in the rules of access.\n",
    "rules/snow.md": "# Snow\n\nBlankets of powder cover alpine chalets.\n",
}

RULES = [uri for uri in DOCUMENTS if uri.startswith("rules/")]

WORDS = WordCounter()

KNOWLEDGE = """\
name: shop
knowledge_bases:
  - id: guide
    sources: [{ type: markdown_glob, path: "guide/*.md" }]
  - id: rules
    sources: [{ type: markdown_glob, path: "rules/*.md" }]
"""


@pytest.fixture
def model() -> Scripted:
    return Scripted()


@pytest.fixture
def ask(tmp_path: Path, model: Scripted) -> Ask:
    """Ask with project-level bindings given as YAML, after ingesting everything."""

    async def put(
        knowledge: str, question: str = QUESTION, counter: Any = WORDS, **more: Any
    ) -> Answer:
        project = f"{KNOWLEDGE}{PARTS}knowledge: {knowledge}\n"
        loaded = load_project(write(tmp_path, DOCUMENTS | {"lorebind.yaml": project}), environ={})
        service = KnowledgeService(loaded)
        try:
            await ingest(service.open("guide").corpus())
            await ingest(service.open("rules").corpus())
            request = Request(question, **more)
            return await answer(service, resolve(loaded), model, counter, request)
        finally:
            await service.close()

    return put


def prompt_of(model: Scripted) -> str:
    """Return the user's message of the last call."""
    return str(model.heard[-1][-1].text)


def blocks(prompt: str) -> list[str]:
    """Return all blocks of passages in a prompt, with their delimiters."""
    blocks = re.finditer(r"<knowledge id=(\w+).*?</knowledge id=\1>", prompt, re.DOTALL)
    return [block[0] for block in blocks]


async def test_markers_count_through_all_blocks(ask: Ask, model: Scripted) -> None:
    """Each passage has its own marker, whichever knowledge base it comes from."""
    reply = await ask("[{ id: guide }, { id: rules, min_score: 0.1 }]")
    prompt = prompt_of(model)
    assert len(blocks(prompt)) == 2
    assert [passage.marker for passage in parse(prompt)] == ["[1]", "[2]", "[3]"]
    assert [citation.marker for citation in reply.offered] == ["[1]", "[2]", "[3]"]
    assert [citation.uri for citation in reply.offered][-1] == "rules/keys.md"
    assert reply.verdict == "hit"


async def test_a_marker_stands_for_the_passage_beside_it(ask: Ask, model: Scripted) -> None:
    """The citation of a marker contains the passage that the model sees under that marker."""
    reply = await ask("[{ id: guide }, { id: rules }]")
    passages = {passage.marker: passage for passage in parse(prompt_of(model))}
    assert reply.offered
    for citation in reply.offered:
        assert passages[citation.marker].content == citation.content
        assert passages[citation.marker].source.startswith(citation.uri)


@pytest.mark.parametrize(("guide", "rules"), [(60, 45), (45, 60), (50, 200)])
async def test_each_binding_keeps_its_budget(
    ask: Ask, model: Scripted, guide: int, rules: int
) -> None:
    """The block of a binding has at most its `max_tokens`, and dropped passages are counted."""
    reply = await ask(
        f"[{{ id: guide, max_tokens: {guide} }}, {{ id: rules, max_tokens: {rules} }}]"
    )
    written = blocks(prompt_of(model))
    assert len(written) == 2
    assert WordCounter().count(written[0]) <= guide
    assert WordCounter().count(written[1]) <= rules
    matches = sum(len(result.result.matches) for result in reply.results)
    assert len(reply.offered) + reply.dropped == matches


async def test_what_does_not_fit_is_dropped(ask: Ask) -> None:
    """A budget for one passage offers one and counts the dropped ones."""
    reply = await ask("[{ id: guide, max_tokens: 45 }]")
    assert (len(reply.offered), reply.dropped) == (1, 1)


async def test_a_block_has_its_label(ask: Ask, model: Scripted) -> None:
    """`inject_as` is the label of the block; without it the block has no label."""
    await ask("[{ id: guide, inject_as: Operator handbook }, { id: rules }]")
    named, plain = blocks(prompt_of(model))
    assert 'label="Operator handbook"' in named.splitlines()[0]
    assert "label" not in plain.splitlines()[0]


async def test_a_miss_gives_the_fallback(ask: Ask, model: Scripted) -> None:
    """If no passage passes, the model gets the fallback and no passage."""
    reply = await ask("[{ id: guide, min_score: 0.99, fallback: Say that a human will call. }]")
    assert reply.verdict == "fallback"
    assert prompt_of(model) == f"Say that a human will call.\n\n{QUESTION}"
    assert (reply.offered, reply.citations, reply.dropped) == ([], [], 0)
    assert "'guide'" in reply.results[0].shortfall


async def test_a_miss_is_told(ask: Ask, model: Scripted) -> None:
    """By default, the model is told once that nothing was found; an empty fallback adds no text."""
    missed = "{ id: guide, min_score: 0.99 }, { id: rules, min_score: 0.99 }"
    reply = await ask(f"[{missed}]")
    assert (reply.verdict, prompt_of(model)) == ("fallback", f"{NOTHING_FOUND}\n\n{QUESTION}")
    await ask("[{ id: guide, min_score: 0.99, fallback: '' }]")
    assert prompt_of(model) == QUESTION


async def test_nothing_is_said_beside_passages(ask: Ask, model: Scripted) -> None:
    """A miss in one knowledge base is not mentioned if another one has passages."""
    reply = await ask("[{ id: guide, min_score: 0.99 }, { id: rules }]")
    assert reply.verdict == "hit"
    assert prompt_of(model).startswith("<knowledge ")
    assert NOTHING_FOUND not in prompt_of(model)


WEAK_QUESTION = "quantum chromodynamics lattice gluon"


@pytest.mark.parametrize(
    "render", ["bullets", "json", "xml", "markdown", "'{{ .marker }} {{ .content }}'"]
)
async def test_a_weak_match_is_given_and_said_to_be_weak(
    ask: Ask, model: Scripted, render: str
) -> None:
    """Below the level of the embedder, the model gets the passages and is told they are weak."""
    reply = await ask(f"[{{ id: guide, render: {render} }}]", WEAK_QUESTION)
    assert (reply.verdict, len(reply.offered)) == ("weak", 2)
    assert reply.results[0].result.verdict == "weak"
    assert "has the relevance" in reply.results[0].shortfall
    passages = parse(prompt_of(model))
    assert len(passages) == 2
    assert all(passage.weak for passage in passages)
    assert WEAK in blocks(prompt_of(model))[0].splitlines()[1]


async def test_a_weak_match_may_give_way(ask: Ask, model: Scripted) -> None:
    """With `on_weak: fallback`, the model gets the fallback instead."""
    reply = await ask("[{ id: guide, on_weak: fallback }]", WEAK_QUESTION)
    assert (reply.verdict, reply.offered) == ("fallback", [])
    assert prompt_of(model) == f"{NOTHING_FOUND}\n\n{WEAK_QUESTION}"
    assert reply.results[0].result.matches


async def test_min_score_cuts_and_says_nothing_else(ask: Ask) -> None:
    """A `min_score` that all passages reach changes neither them nor the verdict."""
    reply = await ask("[{ id: guide, min_score: 0 }]", WEAK_QUESTION)
    assert (reply.verdict, len(reply.offered)) == ("weak", 2)


async def test_the_prompts_budget_counts_the_line(ask: Ask, model: Scripted) -> None:
    """The line that says that the match is weak counts towards `max_tokens`."""
    for budget in (50, 70):
        await ask(f"[{{ id: guide, max_tokens: {budget} }}]", WEAK_QUESTION)
        (block,) = blocks(prompt_of(model))
        assert WordCounter().count(block) <= budget


async def test_one_hit_among_several_is_a_hit(ask: Ask, model: Scripted) -> None:
    """A binding without results adds its fallback, and the passages of the others are shown."""
    reply = await ask("[{ id: guide, min_score: 0.99, fallback: No guide. }, { id: rules }]")
    assert reply.verdict == "hit"
    assert [result.hit for result in reply.results] == [False, True]
    assert prompt_of(model).startswith("No guide.\n\n<knowledge ")
    assert {citation.uri.split("/")[0] for citation in reply.offered} == {"rules"}


@pytest.mark.parametrize(("least", "verdict"), [(2, "hit"), (3, "fallback")])
async def test_min_results_decides_what_is_a_hit(ask: Ask, least: int, verdict: str) -> None:
    """Fewer passages than `min_results` count as none."""
    reply = await ask(f"[{{ id: guide, min_results: {least} }}]")
    assert reply.verdict == verdict
    assert len(reply.offered) == (2 if verdict == "hit" else 0)


async def test_nothing_bound_is_neither_hit_nor_miss(ask: Ask, model: Scripted) -> None:
    """Without bindings, the model is asked the bare question, and the verdict is `none`."""
    reply = await ask("[]", instructions="Be short.")
    assert reply.verdict == "none"
    assert [message.text for message in model.heard[0]] == ["Be short.", QUESTION]


async def test_instructions_then_knowledge_then_question(ask: Ask, model: Scripted) -> None:
    """The system message comes first, then a user message with the block and the question."""
    await ask("[{ id: guide }]", instructions="Be short.")
    system, user = model.heard[0]
    assert (system.type, system.text) == ("system", "Be short.")
    assert user.type == "human"
    assert str(user.text).startswith("<knowledge ")
    assert str(user.text).endswith(f"\n\n{QUESTION}")


async def test_the_query_may_differ_from_the_prompt(ask: Ask, model: Scripted) -> None:
    """`query` is searched for, but is not shown to the model."""
    reply = await ask("[{ id: rules, top_k: 1 }]", query="powder on alpine chalets")
    assert reply.offered[0].uri == "rules/snow.md"
    assert prompt_of(model).endswith(QUESTION)
    assert "powder on" not in prompt_of(model)


async def test_only_what_is_cited_is_listed(ask: Ask, model: Scripted) -> None:
    """Citations are those in the answer, in its order; unknown markers are reported."""
    model.says = ["By the rules [3], and the guide [1]. As all know [7], also [3]."]
    reply = await ask("[{ id: guide }, { id: rules, min_score: 0.1 }]")
    assert reply.text == model.says[0]
    assert [citation.marker for citation in reply.citations] == ["[3]", "[1]"]
    assert reply.unknown_markers == ["[7]"]
    assert len(reply.offered) == 3


async def test_a_failing_model_is_a_model_error(ask: Ask, model: Scripted) -> None:
    """Any exception of a provider becomes a ModelError that names it and has it as its cause."""
    model.error = ConnectionError("cut off")
    with pytest.raises(ModelError, match="ConnectionError: cut off") as caught:
        await ask("[{ id: guide }]")
    assert caught.value.__cause__ is model.error


async def test_usage_counts_the_messages(ask: Ask, model: Scripted) -> None:
    """`prompt_tokens` is the counter's sum for the messages, plus 4 per message."""

    def words(messages: list[BaseMessage]) -> int:
        return sum(len(str(message.text).split()) + 4 for message in messages)

    reply = await ask("[{ id: guide }, { id: rules }]", instructions="Be short.")
    expected = {
        "prompt_tokens": words(model.heard[0]),
        "completion_tokens": len(reply.text.split()),
        "tokenizer": "words",
        "exact": True,
    }
    assert reply.usage == expected


async def test_long_prompts_are_counted_in_a_thread(ask: Ask) -> None:
    """The tokens of a prompt can take seconds to count, and must not block the event loop."""
    threads = []

    class Counter(WordCounter):
        def count(self, text: str) -> int:
            if QUESTION in text:
                threads.append(threading.get_ident())
            return super().count(text)

    await ask("[{ id: guide }]", counter=Counter())
    assert threads
    assert threading.get_ident() not in threads


async def test_an_embedder_outage_is_no_answer(tmp_path: Path, model: Scripted) -> None:
    """If the question cannot be embedded, the error is raised and the model is not asked."""
    project = KNOWLEDGE + (
        "embedders: [{ id: down, provider: langchain, "
        'class: "tests.bindings.helpers:FailingQuestions" }]\n'
        "vector_dbs: [{ id: memory, type: memory }]\n"
        "knowledge: [{ id: guide, fallback: Never shown. }]\n"
    )
    loaded = load_project(write(tmp_path, DOCUMENTS | {"lorebind.yaml": project}), environ={})
    service = KnowledgeService(loaded)
    await ingest(service.open("guide").corpus())
    with pytest.raises(EmbedderError, match="service is down"):
        await answer(service, resolve(loaded), model, WordCounter(), Request(QUESTION))
    assert model.heard == []
    await service.close()


async def test_a_store_outage_is_no_answer(tmp_path: Path, model: Scripted) -> None:
    """If the index cannot be read, the error is raised and the model is not asked."""
    project = f"{KNOWLEDGE}{PARTS}knowledge: [{{ id: guide, fallback: Never shown. }}]\n"
    loaded = load_project(write(tmp_path, DOCUMENTS | {"lorebind.yaml": project}), environ={})
    service = KnowledgeService(loaded)
    await ingest(service.open("guide").corpus())
    await service.close()
    for file in (tmp_path / ".lorebind").glob("lorebind.db*"):
        file.write_bytes(b"this is no database " * 400)
    with pytest.raises(StoreError):
        await answer(service, resolve(loaded), model, WordCounter(), Request(QUESTION))
    assert model.heard == []
    await service.close()


async def test_what_was_never_ingested_is_no_answer(tmp_path: Path, model: Scripted) -> None:
    """A binding to a knowledge base without an index is an error, not a miss."""
    loaded = load_project(
        write(tmp_path, DOCUMENTS | {"lorebind.yaml": KNOWLEDGE + PARTS}), environ={}
    )
    service = KnowledgeService(loaded)
    with pytest.raises(NotIngestedError, match="lorebind knowledge ingest guide"):
        await answer(service, [bind(loaded, "guide")], model, WordCounter(), Request(QUESTION))
    assert model.heard == []
    await service.close()


async def test_the_verdict_is_about_the_passages_that_are_offered(
    ask: Ask, model: Scripted
) -> None:
    """A hit that does not fit its budget does not hide that the offered passages are weak."""
    bindings = "[{{ id: guide, max_tokens: {} }}, {{ id: rules }}]"
    reply = await ask(bindings.format(1), "ninety console")
    assert [result.verdict for result in reply.results] == ["hit", "weak"]
    assert (reply.verdict, {offer.uri for offer in reply.offered}) == ("weak", set(RULES))
    assert WEAK in prompt_of(model)
    assert (await ask(bindings.format(500), "ninety console")).verdict == "hit"
