"""Compare Lorebind with its peers: the same small tasks, run for real.

    python benchmarks/compare [--peers NAMES] [--tasks NAMES] [--collections DIR]

Each peer gets a virtual environment of its own, which needs a package index once. Results are
stored after each task, so a run that was stopped continues with `--missing`. The tables of
docs/comparison.md are written from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from environments import Environment, prepare
from measure import TASK_NAMES, Bench, run_task
from page import write

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PEERS = ("lorebind", "langchain", "llama_index", "haystack", "crewai")
COLLECTION = "cranfield"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", default=",".join(PEERS), help="default: %(default)s")
    parser.add_argument("--tasks", default=",".join(TASK_NAMES), help="default: %(default)s")
    parser.add_argument(
        "--environments", type=Path, default=Path(".lorebind/compare"), metavar="DIR"
    )
    parser.add_argument(
        "--collections", type=Path, metavar="DIR", help=f"a folder with the folder {COLLECTION}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of the runs that are timed")
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    tasks = [name for name in arguments.tasks.split(",") if name]
    for peer in arguments.peers.split(","):
        missing = [
            task for task in tasks if not (arguments.missing and task in results.get(peer, {}))
        ]
        if missing:
            measure(peer, missing, arguments, results)
    write(results)


def measure(peer: str, tasks: list[str], arguments: Any, results: dict[str, Any]) -> None:
    """Measure the tasks of a peer, and store each result."""
    result = results.setdefault(peer, {})
    try:
        environment = prepare(peer, arguments.environments)
    except subprocess.CalledProcessError as error:
        results[peer] = {"not installed": "\n".join(str(error.output).splitlines()[-3:])}
        store(results)
        return
    result.pop("not installed", None)
    result["environment"] = described(environment)
    collection = arguments.collections / COLLECTION if arguments.collections else None
    bench = Bench(
        peer, environment.python, arguments.environments.resolve() / "vectors.db", arguments.rounds
    )
    for task in tasks:
        print(f"{peer}: {task}", file=sys.stderr)
        measured = run_task(bench, task, collection)
        if measured is not None:
            result[task] = measured
            store(results)


def described(environment: Environment) -> dict[str, Any]:
    return {
        "versions": environment.versions,
        "packages": environment.packages,
        "megabytes": environment.megabytes,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
    }


def store(results: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
