"""Repositories that make git run a program of theirs. The program leaves a proof: a file named after the way in.

Each way in comes with the plain git command that falls for it, so that a test can first see the program run.
"""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

STATUS = ("status", "--porcelain")
LS_REMOTE = ("ls-remote", "origin")
AS_SOMEBODY = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")


class Hostile:
    """A repository at `top` with one commit of src/a.txt and kept.md, and a place outside of it for the proofs."""

    def __init__(self, top: Path, proofs: Path) -> None:
        self.top = top
        self.proofs = proofs
        proofs.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")
        self.write("src/a.txt", "a\n")
        self.write("kept.md", "kept\n")
        self.git("add", ".")
        self.git("commit", "-qm", "begin")

    def git(self, *words: str, at: str = ".") -> str:
        command = ["git", *AS_SOMEBODY, *words]
        done = subprocess.run(command, cwd=self.top / at, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def set(self, name: str, value: str, at: str = ".") -> None:
        self.git("config", name, value, at=at)

    def write(self, path: str, text: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def program(self, name: str, path: str = "") -> str:
        """A program in the repository that leaves a proof of this name."""
        file = self.write(path or "programs/" + name.replace(" ", "-"), f"#!/bin/sh\n: > '{self.proofs}/{name}'\n")
        file.chmod(0o755)
        return str(file)

    def take_proofs(self) -> list[str]:
        found = sorted(os.listdir(self.proofs))
        for name in found:
            (self.proofs / name).unlink()
        return found


def touch(it: Hostile, path: str = "src/a.txt") -> None:
    """Make git look inside a file: its times are not those of the index."""
    os.utime(it.top / path, (1, 1))


def filter_in_config(it: Hostile, kind: str, name: str) -> None:
    it.write(".gitattributes", "*.txt filter=f\n")
    it.set(f"filter.f.{kind}", it.program(name))
    touch(it)


def info_attributes(it: Hostile) -> None:
    filter_in_config(it, "clean", "info attributes")
    (it.top / ".gitattributes").rename(it.top / ".git/info/attributes")


def included_file(it: Hostile) -> None:
    filter_in_config(it, "clean", "included file")
    it.write("more.cfg", f'[filter "f"]\nclean = {it.program("included file")}\n')
    it.git("config", "--unset", "filter.f.clean")
    it.set("include.path", "../more.cfg")


def hook(it: Hostile) -> None:
    it.program("hook", ".git/hooks/post-index-change")
    touch(it)


def hooks_path(it: Hostile) -> None:
    it.program("hooks path", "hooks/post-index-change")
    it.set("core.hooksPath", "hooks")
    touch(it)


def worktree_config(it: Hostile) -> None:
    it.set("extensions.worktreeConfig", "true")
    it.git("config", "--worktree", "core.fsmonitor", it.program("worktree config"))


def diff(it: Hostile, setting: str, name: str) -> None:
    it.write(".gitattributes", "*.txt diff=d\n")
    it.write("src/a.txt", "changed\n")
    it.set(setting, it.program(name))


def nested(it: Hostile) -> None:
    it.write("inner/b.txt", "b\n")
    it.git("init", "-q", at="inner")
    it.git("add", ".", at="inner")
    it.set("core.fsmonitor", it.program("nested"), at="inner")


def submodule(it: Hostile) -> None:
    nested(it)
    it.git("config", "--unset", "core.fsmonitor", at="inner")
    it.git("commit", "-qm", "inner", at="inner")
    it.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    it.write(".gitmodules", '[submodule "inner"]\npath = inner\nurl = ./inner\nignore = none\n')
    it.git("commit", "-qm", "with a submodule")
    it.set("core.fsmonitor", it.program("submodule"), at="inner")


def promisor(it: Hostile) -> None:
    """A partial clone without the tree that git needs to compare what is staged."""
    tree = it.git("rev-parse", "HEAD:src")
    it.write("src/a.txt", "staged\n")
    it.git("add", "src/a.txt")
    (it.top / ".git/objects" / tree[:2] / tree[2:]).unlink()
    it.set("core.repositoryFormatVersion", "1")
    it.set("extensions.partialClone", "origin")
    it.set("remote.origin.promisor", "true")
    it.set("remote.origin.url", str(it.top))
    it.set("remote.origin.uploadpack", f"'{it.program('promisor')}'")


def remote(it: Hostile, url: str, setting: str, name: str) -> None:
    it.set("remote.origin.url", url)
    it.set(setting, it.program(name))


def ext(it: Hostile) -> None:
    it.set("remote.origin.url", f"ext::{it.program('ext protocol')}")
    it.set("protocol.ext.allow", "always")


class _Unauthorized(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


def login(it: Hostile, setting: str, name: str) -> None:
    """A remote that wants a password, so that git asks a program for it."""
    server = HTTPServer(("127.0.0.1", 0), _Unauthorized)
    Thread(target=server.serve_forever, daemon=True).start()
    it.set("http.proxy", "")
    remote(it, f"http://127.0.0.1:{server.server_port}/x", setting, name)


def pointer(it: Hostile) -> None:
    """A repository elsewhere, with a configuration of its own."""
    it.set("core.fsmonitor", it.program("pointer"))
    elsewhere = it.top.parent / "elsewhere"
    (it.top / ".git").rename(elsewhere)
    it.write(".git", f"gitdir: {elsewhere}\n")


def signature(it: Hostile) -> None:
    commit = it.git("cat-file", "commit", "HEAD").split("\n\n")
    signed = f"{commit[0]}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n{commit[1]}\n"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"], cwd=it.top, input=signed.encode(), capture_output=True
    )
    it.git("update-ref", "HEAD", made.stdout.decode().strip())
    it.set("gpg.program", it.program("signature"))


class WayIn(NamedTuple):
    plant: Callable[[Hostile], None]
    command: Sequence[str] = STATUS
    """What plain git runs the program for."""
    at: str = "."
    """Where plain git must be asked."""


WAYS_IN = {
    "clean filter": WayIn(lambda it: filter_in_config(it, "clean", "clean filter")),
    "process filter": WayIn(lambda it: filter_in_config(it, "process", "process filter")),
    "smudge filter": WayIn(
        lambda it: filter_in_config(it, "smudge", "smudge filter"), ("cat-file", "--filters", "HEAD:src/a.txt")
    ),
    "info attributes": WayIn(info_attributes),
    "included file": WayIn(included_file),
    "hook": WayIn(hook),
    "hooks path": WayIn(hooks_path),
    "fsmonitor": WayIn(lambda it: it.set("core.fsmonitor", it.program("fsmonitor"))),
    "worktree config": WayIn(worktree_config),
    "external diff": WayIn(lambda it: diff(it, "diff.external", "external diff"), ("diff",)),
    "diff driver": WayIn(lambda it: diff(it, "diff.d.command", "diff driver"), ("diff",)),
    "textconv": WayIn(lambda it: diff(it, "diff.d.textconv", "textconv"), ("diff",)),
    "pager": WayIn(lambda it: it.set("core.pager", it.program("pager")), ("log",)),
    "editor": WayIn(lambda it: it.set("core.editor", it.program("editor")), ("commit", "--allow-empty")),
    "alias": WayIn(lambda it: it.set("alias.st", "!" + it.program("alias")), ("st",)),
    "signature": WayIn(signature, ("log", "--show-signature")),
    "nested": WayIn(nested, at="inner"),
    "submodule": WayIn(submodule),
    "promisor": WayIn(promisor),
    "upload pack": WayIn(lambda it: remote(it, str(it.top), "remote.origin.uploadpack", "upload pack"), LS_REMOTE),
    "ssh command": WayIn(lambda it: remote(it, "ssh://localhost/x", "core.sshCommand", "ssh command"), LS_REMOTE),
    "git proxy": WayIn(lambda it: remote(it, "git://localhost/x", "core.gitProxy", "git proxy"), LS_REMOTE),
    "ext protocol": WayIn(ext, LS_REMOTE),
    "credential helper": WayIn(lambda it: login(it, "credential.helper", "credential helper"), LS_REMOTE),
    "askpass": WayIn(lambda it: login(it, "core.askPass", "askpass"), LS_REMOTE),
    "pointer": WayIn(pointer),
}


def run_plain_git(top: Path, *words: str) -> None:
    """Git as a person runs it: on a terminal, with its usual environment."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "GIT_TERMINAL_PROMPT": "0",
               "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.com",
               "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.com"}  # fmt: skip
    subprocess.run(["git", *words], cwd=top, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.close(ours)


TOGETHER = ("clean filter", "fsmonitor", "hook", "nested")


def plant_together(top: Path, proofs: Path) -> Hostile:
    """Make one repository hostile in every way that plain `git status` falls for, and see that it does."""
    it = Hostile(top, proofs)
    for name in TOGETHER:
        WAYS_IN[name].plant(it)
    for folder in (it.top, it.top / "inner"):
        run_plain_git(folder, *STATUS)
    assert it.take_proofs() == sorted(TOGETHER), "plain git does not fall for it, so this test shows nothing"
    touch(it)
    return it
