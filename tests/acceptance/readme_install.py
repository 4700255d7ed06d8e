"""Install a wheel as the README says, and ask a folder with each kind of document that it promises.

`python -m tests.acceptance.readme_install dist/*.whl` needs a package index, so pytest does not run
it; `.ci/run` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import docx

from tests.app.missing_packages import to_install
from tests.knowledge.documents import pdf_bytes, saved

ROOT = Path(__file__).parents[2]
FACTS = {
    "trains.md": ("Which class are trains booked in?", "Trains are booked in second class."),
    "hotels.pdf": ("How much may a hotel cost?", "A hotel may cost 140 euros."),
    "receipts.docx": ("When are receipts uploaded?", "Receipts are uploaded in thirty days."),
}
"""By the name of the document: a question, and the sentence that answers it."""


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        install = [folder / "venv/bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (requirement,) = to_install(readme.partition("## Install")[2])
        subprocess.run([*install, requirement.replace("lorebind", str(wheel))], check=True)
        (folder / "documents").mkdir()
        for name, (_, sentence) in FACTS.items():
            (folder / "documents" / name).write_bytes(_document(name, sentence))
        for name, (question, sentence) in FACTS.items():
            answer = _ask(folder, question)
            cited = any(line.startswith(f"[1] {name}") for line in answer.splitlines())
            if not cited or f"> {sentence} [1]" not in answer:
                sys.exit(f"{name} does not answer {question!r}:\n{answer}")


def _document(name: str, sentence: str) -> bytes:
    if name.endswith(".pdf"):
        return pdf_bytes([sentence])
    if name.endswith(".md"):
        return sentence.encode()
    document = docx.Document()
    document.add_paragraph(sentence)
    return saved(document)


def _ask(folder: Path, question: str) -> str:
    done = subprocess.run(
        [folder / "venv/bin/lorebind", "ask", "documents", question],
        cwd=folder,
        env={"HOME": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
