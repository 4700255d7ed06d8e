"""Recognize the text of a picture, in a process of its own. Nothing is downloaded.

The models of the extra `ocr` are those of PP-OCR, which its wheel contains. They read Chinese,
Japanese and Latin script.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lorebind_config.errors import SourceError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import LoadedDocument, well_formed
from lorebind_knowledge.loaders.scans.gutters import Word, cut_at_gutters
from lorebind_knowledge.loaders.scans.layout import (
    Line,
    in_reading_order,
    slope_of,
    text_of,
    turned,
)
from lorebind_knowledge.loaders.scans.pictures import MOST_SIDE
from lorebind_knowledge.loaders.scans.words import PageBox, packed

_MODELS = ("det", "rec", "cls")
"""Those that find the lines, read them, and tell which are upside down."""


def recognize(data: bytes, uri: str, model: str = "", version: str = "") -> LoadedDocument:
    """Return the text of a picture, in reading order; the metadata has the `boxes` of its lines.

    Args:
        data: a PNG.
        uri: the document's, for messages.
        model: a folder with other models, see `model_files`; empty for those of the extra.
        version: a digest of the models; they are loaded again if it changes.

    Raises:
        SourceError: the folder lacks a model.
        MissingDependencyError: the extra is not installed.
    """
    engine = _engine(model, version)
    import numpy as np
    from PIL import Image

    # Pictures arrive as PNG, so no other decoder has to see hostile bytes.
    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        # Blue first: the models were trained with pictures as OpenCV reads them.
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]
    result = _result(engine, pixels)
    boxes = [] if result.boxes is None else result.boxes.tolist()
    slope = slope_of(boxes)
    lines = [
        Line.of(straight, text)._replace(corners=box)
        for box, straight, text in zip(boxes, turned(boxes, slope), result.txts or (), strict=True)
    ]
    blocks = in_reading_order(cut_at_gutters(lines, _words(result, lines, slope)))
    height, width, _ = pixels.shape
    words = (
        PageBox.around([(x / width, y / height) for x, y in line.corners], line.text)
        for rows in blocks
        for row in rows
        for line in row
    )
    metadata = {"boxes": packed(words)}
    return LoadedDocument(well_formed(text_of(blocks)), uri, metadata=metadata, format="scan")


def _result(engine: Any, pixels: Any, *, with_words: bool = True) -> Any:
    """Return what is recognized: the places of words too, unless the library fails at these."""
    try:
        return engine(pixels, return_word_box=with_words)
    except MemoryError:
        raise
    except Exception as error:
        if "bad_alloc" in str(error):  # as ONNX Runtime reports it
            raise MemoryError from error
        if not with_words:
            raise
    return _result(engine, pixels, with_words=False)


def _words(result: Any, lines: Sequence[Line], slope: float) -> list[list[Word]]:
    """Return the words of each line; none if the library has others than its text."""
    if len(result.word_results) != len(lines):
        return [[] for _ in lines]
    words = [
        [Word.of(turned([box], slope)[0], text) for text, _, box in some]
        for some in result.word_results
    ]
    return [
        some if "".join(word.text for word in some) == "".join(line.text.split()) else []
        for line, some in zip(lines, words, strict=True)
    ]


def model_files(folder: str) -> dict[str, Path]:
    """Return the files of a folder by kind: `rec`, and `det`, `cls` and `keys` if they are there.

    Models are the files `*rec*.onnx`, `*det*.onnx` and `*cls*.onnx`. `*.txt` has the characters of
    `rec`, if the model itself does not.

    Raises:
        SourceError: there is no `rec`, or there are several files of a kind.
    """
    files: dict[str, Path] = {}
    for kind, pattern in (*((kind, f"*{kind}*.onnx") for kind in _MODELS), ("keys", "*.txt")):
        matches = sorted(Path(folder).glob(pattern))
        if len(matches) > 1:
            names = " and ".join(path.name for path in matches[:2])
            raise SourceError(f"the folder ocr.model has {names}; remove one of them")
        if matches:
            files[kind] = matches[0]
    if "rec" not in files:
        raise SourceError(f"the folder ocr.model has no file *rec*.onnx: {folder}")
    return files


@functools.lru_cache(maxsize=1)
def _engine(folder: str, version: str) -> Any:
    rapidocr = import_extra("rapidocr", extra="ocr", purpose="recognizing the text of scans")
    files = model_files(str(Path(rapidocr.__file__).parent / "models"))
    if folder:
        files.pop("keys", None)
        files |= model_files(folder)
    if "keys" not in files and not _has_characters(files["rec"]):
        raise SourceError(
            f"the model {files['rec'].name} of ocr.model does not contain its characters; add them "
            "to the folder as a file *.txt"
        )
    # Named files, so that the library has no reason to download any.
    params: dict[str, Any] = {
        f"{kind.capitalize()}.model_path": str(files[kind]) for kind in _MODELS
    }
    # By default, small pictures are enlarged, which takes ten times as long and finds no more.
    params |= {"Det.limit_type": "max", "Det.limit_side_len": MOST_SIDE}
    if "keys" in files:
        params["Rec.rec_keys_path"] = str(files["keys"])
    _stop_spinning()
    return rapidocr.RapidOCR(params={"Global.log_level": "critical", **params})


@functools.cache
def _stop_spinning() -> None:
    """Let threads of ONNX Runtime wait without using a processor.

    Otherwise they take it from the thread that they wait for: on a machine that is busy with other
    work, a page takes ten times as long.
    """
    engine: Any = import_module("rapidocr.inference_engine.onnxruntime.main").OrtInferSession
    make_options = engine._init_sess_opts

    def options(settings: Any) -> Any:
        result = make_options(settings)
        result.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return result

    engine._init_sess_opts = staticmethod(options)


def _has_characters(model: Path) -> bool:
    from onnxruntime import InferenceSession

    session = InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return "character" in session.get_modelmeta().custom_metadata_map
