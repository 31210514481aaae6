"""Which files a tool of a harness is about to change: edits, patches, and shell commands that plainly write."""

from __future__ import annotations

import os
from itertools import pairwise

from conch.harnesses.shell_words import BODY, CLOSE, INPUT, OPEN, STRING, Scanner
from conch.lean import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MOST = 50  # files of one call that are looked at
_SHELLS = _words(
    "bash shell sh run_shell_command local_shell exec_command run_terminal_cmd run_in_terminal terminal execute"
)
_EDITS = _words(
    "edit multiedit write notebookedit write_file replace edit_file create create_file str_replace str_replace_editor "
    "str_replace_based_edit_tool insert update delete delete_file search_replace editfiles patch apply_patch"
)
_PATHS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "filename", "file")
_PATCHES = ("command", "patch", "patchText", "input")
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
# Commands all of whose arguments are changed, and those that change only the last one.
_CHANGE_ALL = _words("rm rmdir mkdir touch truncate tee mv unlink shred")
_CHANGE_LAST = _words("cp ln install rsync")
_INTO = ("-t", "--target-directory")  # of `cp`, `mv`, `ln` and `install`
_IN_PLACE = _words("sed gsed perl")
_NESTED = _words("bash sh zsh dash")  # with `-c`, they run another command line
_KNOWN = _CHANGE_ALL | _CHANGE_LAST | _IN_PLACE | _NESTED | _words("dd git find")
_KEYWORDS = _words("if then elif else while until do !")
# Programs that run the command after their own options.
_WRAPPERS = _words(
    "sudo doas env time timeout nice ionice stdbuf setsid nohup command exec builtin xargs coproc busybox"
)
# Options whose value is a word of its own.
_VALUED = {
    "truncate": ("-s", "--size", "-r", "--reference"),
    "touch": ("-d", "--date", "-r", "--reference", "-t"),
    "mkdir": ("-m", "--mode"),
}
_FLAGS = "0123456789EalnprsuwzT"  # of `sed` and `perl` that may stand before the `i` of "in place"
_FIND_FIRST = ("-H", "-L", "-P")  # options of `find` that stand before the folders
_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
_GIT_PATHS = _words("rm mv restore checkout")
_DEEPEST = 3


def changed_paths(tool: str, given: dict[str, Any], cwd: str) -> list[str]:
    """The absolute paths that a tool call plainly changes. Only for a shell command does it look at the filesystem."""
    name = tool.lower()
    if name in _SHELLS:
        command = next((given[key] for key in ("command", "cmd", "script") if given.get(key)), "")
        command = command[-1] if isinstance(command, list) and command else command
        found = _written_by_shell(command, cwd) if isinstance(command, str) else []
    elif name in _EDITS:
        found = [path for key in _PATHS if isinstance(path := given.get(key), str) and path]
        files = given.get("files")
        found += [path for path in files if isinstance(path, str)] if isinstance(files, list) else []
        found += [path for key in _PATCHES if isinstance(text := given.get(key), str) for path in _patched(text)]
    else:
        found = []
    return list(dict.fromkeys(os.path.normpath(os.path.join(cwd, path)) for path in found))[:_MOST]


def _patched(patch: str) -> list[str]:
    """The files of a patch in the form of Codex."""
    lines = [line.strip() for line in patch.splitlines()]
    return [line[len(mark) :].strip() for line in lines for mark in _PATCHED if line.startswith(mark)]


# -- shell


def _written_by_shell(command: str, cwd: str, depth: int = 0) -> list[str]:
    """The files that a shell command plainly writes: redirections, and well-known programs such as `rm` or `sed -i`.

    A word with a variable or a substitution is not plain, and neither is a relative path after `cd $X`.
    """
    found = _patched(command) if "apply_patch" in command else []
    folder: str | None = cwd
    above = list[str | None]()  # the folders to which the end of a subshell or `popd` returns
    for words in Scanner(command).scan():
        arguments, targets, bodies = _split(words)
        arguments = _unwrapped(arguments)
        program = os.path.basename(arguments[0]) if arguments else ""
        if program in (OPEN, "pushd"):
            above.append(folder)
        if program in (CLOSE, "popd"):
            folder = above.pop() if above else folder
        elif program in ("cd", "pushd"):
            folder = _enter(folder, arguments[1:])
        elif folder is not None and depth < _DEEPEST:
            for line in _nested(program, arguments, bodies):
                found += _written_by_shell(line, folder, depth + 1)
        found += [path for word in [*targets, *_written(arguments, folder or "/")] for path in _plain(word, folder)]
    return found


def _enter(folder: str | None, words: list[str]) -> str | None:
    """The folder after `cd`; None if only the shell knows it."""
    name = next((word for word in words if word == "-" or not word.startswith("-")), "~")
    if name == "-" or _is_unclear(name):
        return None
    return _below(folder, os.path.expanduser(name))


def _below(folder: str | None, path: str) -> str | None:
    if folder is None and not os.path.isabs(path):
        return None
    return os.path.normpath(os.path.join(folder or "/", path))


def _nested(program: str, arguments: list[str], bodies: list[str]) -> list[str]:
    """The command lines that a command runs: of `bash -lc LINE`, of `eval`, or of a here-document for a shell."""
    if program == "eval":
        return [" ".join(arguments[1:])]
    if program not in _NESTED:
        return []
    if all(word.startswith("-") for word in arguments[1:]):
        return bodies
    return [after for before, after in pairwise(arguments) if before.startswith("-") and before.endswith("c")][:1]


def _unwrapped(arguments: list[str]) -> list[str]:
    """The command after keywords, assignments and programs that only run another one."""
    while arguments:
        first = os.path.basename(arguments[0])
        if first in _WRAPPERS:
            arguments = _after_options(arguments[1:])
        elif first in _KEYWORDS or _is_assignment(first):
            arguments = arguments[1:]
        else:
            break
    return arguments


def _after_options(words: list[str]) -> list[str]:
    """The words from the program on, after options, their values and a duration, such as `-u me` or `5s`."""
    for place, word in enumerate(words):
        is_value = place > 0 and words[place - 1].startswith("-") and os.path.basename(word) not in _KNOWN
        if not (is_value or word.startswith("-") or word[:1].isdigit() or _is_assignment(word)):
            return words[place:]
    return []


def _written(arguments: list[str], folder: str) -> list[str]:
    """The arguments of one simple command that it changes."""
    if not arguments:
        return []
    program = os.path.basename(arguments[0])
    if program == "git":
        return _written_by_git(arguments[1:], folder)
    rest = _operands(arguments[1:], _VALUED.get(program, ()))
    if program in _CHANGE_ALL or program in _CHANGE_LAST:
        into = [after for before, after in pairwise(arguments) if before in _INTO]
        into += [word.partition("=")[2] for word in arguments if word.startswith(f"{_INTO[1]}=")]
        return into + rest if program in _CHANGE_ALL else into or rest[-1:]
    if program == "find":
        return _written_by_find(arguments, folder)
    if program in _IN_PLACE and any(map(_is_in_place, arguments[1:])):
        scripts = [after for before, after in pairwise(arguments) if before in ("-e", "-f")]
        has_script = scripts or any(word.startswith(("--expression=", "--file=")) for word in arguments)
        return [word for word in rest if word not in scripts] if has_script else rest[1:]
    return [word[3:] for word in rest if word.startswith("of=")] if program == "dd" else []


def _operands(words: list[str], valued: tuple[str, ...]) -> list[str]:
    """The words that are neither options nor values of the options in `valued`."""
    end = words.index("--") if "--" in words else len(words)
    pairs = pairwise(["", *words[:end]])
    return [word for before, word in pairs if word and word[0] != "-" and before not in valued] + words[end + 1 :]


def _is_in_place(word: str) -> bool:
    """Whether an option of `sed` or `perl` says to change files: `-i.bak`, `-Ei`, `-0pi`, `--in-place`."""
    return word.startswith("--in-place") or (word[:1] == "-" and word[1:].lstrip(_FLAGS)[:1] == "i")


def _written_by_find(arguments: list[str], folder: str) -> list[str]:
    """Where `find` searches, if it changes what it finds."""
    runs = [arguments[place + 1 :] for place, word in enumerate(arguments) if word in ("-exec", "-execdir", "-ok")]
    if "-delete" not in arguments and not any(_written(run, folder) for run in runs):
        return []
    words = [word for word in arguments[1:] if word not in _FIND_FIRST]
    options = next(place for place, word in enumerate(words) if word.startswith("-"))
    return words[:options] or ["."]


def _written_by_git(words: list[str], folder: str) -> list[str]:
    inside = ""
    while words and words[0].startswith("-"):
        if words[0] == "-C" and len(words) > 1:
            inside = os.path.join(inside, words[1])
        words = words[2 if words[0] in _GIT_VALUED else 1 :]
    changed = _written_in_git(words, os.path.join(folder, inside))
    return [os.path.join(inside, path) for path in changed]


def _written_in_git(words: list[str], folder: str) -> list[str]:
    rest = _operands(words, ("-s", "--source"))
    command, options = rest[:1], {*words}
    if "--" in words and command and command[0] in _GIT_PATHS:
        return words[words.index("--") + 1 :]
    if command == ["checkout"]:
        if {"-b", "-B", "--orphan"} & options:  # a new branch
            return []
        # `git checkout main` changes the branch. If there is such a file, it changes the file.
        is_file = len(rest) == 2 and os.path.lexists(os.path.join(folder, rest[1]))
        return rest[1:] if is_file else rest[2:]
    if command and command[0] in _GIT_PATHS:
        return rest[1:]
    is_forced = any(word[0] == "-" and "f" in word for word in words if word)
    is_all = {
        "clean": is_forced,
        "reset": "--hard" in options,
        "stash": rest[1:2] in ([], ["push"], ["save"]),
    }
    return ["."] if command and is_all.get(command[0]) else []


def _split(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The words of a command, the files that its output goes to, and its here-documents and here-strings."""
    arguments, targets, bodies, sign = list[str](), list[str](), list[str](), ""
    for word in words:
        if word.startswith(BODY):
            bodies.append(word[len(BODY) :])
        elif word.startswith("\0") and word not in (OPEN, CLOSE):
            sign = word
        elif sign:
            bodies += [word] * (sign == STRING)
            targets += [word] * (not sign.startswith(INPUT) and not word.startswith("&"))
            sign = ""
        else:
            arguments.append(word)
    return arguments, targets if arguments[:1] != ["[["] else [], bodies  # `>` compares in `[[`


def _plain(word: str, folder: str | None) -> list[str]:
    """The paths that a word stands for; none if only a shell knows."""
    if _is_unclear(word) or word in ("-", "/dev/null"):
        return []
    paths = [_below(folder, os.path.expanduser(each)) for each in _without_braces(word)]
    return [match for path in paths if path is not None for match in _matches(path, "/" in word)]


def _is_unclear(word: str) -> bool:
    return "$" in word or "`" in word


def _without_braces(word: str) -> list[str]:
    """The words that a shell makes of `{a,b}.py`; of very many, only their folder."""
    found, left = list[str](), [word]
    while left and len(left) + len(found) < _MOST:
        each = left.pop()
        end = each.find("}")
        start = each.rfind("{", 0, max(end, 0))
        if start < 0 or "," not in each[start:end]:
            found.append(each)
        else:
            left += [each[:start] + part + each[end + 1 :] for part in each[start + 1 : end].split(",")]
    return [os.path.dirname(word[: word.find("{")])] if left else found


def _matches(path: str, has_folder: bool) -> list[str]:
    """The files that a pattern stands for. If it names a folder and there are none yet, or many, that folder."""
    if not any(sign in path for sign in "*?[") or os.path.lexists(path):
        return [path]
    from glob import iglob
    from itertools import islice

    found = list(islice(iglob(path), _MOST))
    while any(sign in path for sign in "*?["):
        path = os.path.dirname(path)
    return found if 0 < len(found) < _MOST else [path] * (has_folder or bool(found))


def _is_assignment(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()
