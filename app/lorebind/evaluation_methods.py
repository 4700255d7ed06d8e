"""Measure the search quality of a project's knowledge bases, and find better settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lorebind_bindings import bind, override
from lorebind_knowledge.bridge import sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.evaluation.evaluate import StrategyScores
    from lorebind_knowledge.evaluation.tuning import Tuning
    from lorebind_knowledge.service import KnowledgeService

_COMPARED = ("hybrid", "similarity", "lexical", "mmr")


class EvaluationMethods:
    """The methods of `Project` for evaluation and tuning."""

    config: LoadedProject
    knowledge: KnowledgeService

    async def aevaluate(
        self,
        kb_id: str,
        queries: str | Path,
        qrels: str | Path,
        *,
        strategies: Sequence[str] | None = None,
        against: Sequence[str] = (),
        workflow: str | None = None,
    ) -> list[StrategyScores]:
        """Measure the search quality of a knowledge base against human relevance judgments.

        Args:
            kb_id: the id of the knowledge base.
            queries: a JSON Lines file, `{"id": …, "text": …}` per line.
            qrels: a file with query, document and relevance, separated by tabs.
            strategies: the retrieval strategies to compare; None compares the declared one with all
                others that need no further settings. The declared one is always first.
            against: other knowledge bases with the same documents, such as one with another
                embedder, to compare as they are declared.
            workflow: the workflow that declares the knowledge base, if a workflow does.

        Raises:
            UsageError: a file cannot be read, or it judges other documents.
            LorebindError: as for `aquery`.
        """
        from lorebind_knowledge.evaluation.dataset import read_dataset
        from lorebind_knowledge.evaluation.evaluate import against_first, evaluate

        binding = bind(self.config, kb_id, workflow)
        dataset = read_dataset(Path(queries), Path(qrels))
        names = [binding.settings.strategy, *(strategies or _COMPARED)]
        ways = {name: override(binding, strategy=name).settings for name in names}
        scores = await evaluate(self.knowledge.knowledge_base(kb_id, workflow), dataset, ways)
        for other in against:
            settings = bind(self.config, other, workflow).settings
            kb = self.knowledge.knowledge_base(other, workflow)
            scores += await evaluate(kb, dataset, {f"{other}: {settings.strategy}": settings})
        return against_first(scores)

    async def atune(
        self, kb_id: str, queries: str | Path, qrels: str | Path, *, workflow: str | None = None
    ) -> Tuning:
        """Find the best fusion weight, and test whether its gain is better than chance.

        The arguments are those of `aevaluate`.
        """
        from lorebind_knowledge.evaluation.dataset import read_dataset
        from lorebind_knowledge.evaluation.tuning import tune

        settings = bind(self.config, kb_id, workflow).settings
        dataset = read_dataset(Path(queries), Path(qrels))
        return await tune(self.knowledge.knowledge_base(kb_id, workflow), dataset, settings)

    evaluate = sync(aevaluate)
    tune = sync(atune)
