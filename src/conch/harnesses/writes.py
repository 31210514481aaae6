"""Which files a tool of a harness is about to change: edits, patches, and shell commands that plainly write."""

from __future__ import annotations

import os
from itertools import pairwise

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
_WRAPPERS = _words("sudo doas env time timeout nice ionice stdbuf setsid nohup command exec builtin xargs")
_GIT_PATHS = _words("rm mv restore checkout")
_OPERATORS = (";", "&&", "||", "|&", "|", "&", "\n", "(", ")", "{", "}", "`")
_DEEPEST = 3
_REDIRECTIONS = (">>", ">|", "&>>", "&>", ">")


def changed_paths(tool: str, given: dict[str, Any], cwd: str) -> list[str]:
    """The absolute paths that a tool call plainly changes. It does not look at the filesystem."""
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

    A word with a variable or a substitution is not plain. Of a pattern, only the folder counts.
    """
    found = _patched(command) if "apply_patch" in command else []
    folder = cwd
    for words in _Scanner(command).scan():
        arguments, targets = _split(words)
        arguments = _unwrapped(arguments)
        for line in _nested(arguments) if depth < _DEEPEST else ():
            found += _written_by_shell(line, folder, depth + 1)
        if arguments[:1] == ["cd"]:
            folder = os.path.normpath(os.path.join(folder, *_plain(arguments[1:2])))
            continue
        found += [os.path.join(folder, path) for path in _plain([*targets, *_written(arguments)])]
    return found


def _nested(arguments: list[str]) -> list[str]:
    """The command line that a shell is told to run, such as that of `bash -lc LINE`."""
    if not arguments or os.path.basename(arguments[0]) not in _NESTED:
        return []
    return [after for before, after in pairwise(arguments) if before.startswith("-") and before.endswith("c")][:1]


def _unwrapped(arguments: list[str]) -> list[str]:
    """The command behind keywords, assignments and programs that only run another one."""
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
    """The words from the program on, behind options, their values and a duration, such as `-u me` or `5s`."""
    for place, word in enumerate(words):
        is_value = place > 0 and words[place - 1].startswith("-") and os.path.basename(word) not in _KNOWN
        if not (is_value or word.startswith("-") or word[:1].isdigit() or _is_assignment(word)):
            return words[place:]
    return []


def _written(arguments: list[str]) -> list[str]:
    """The arguments of one simple command that it changes."""
    if not arguments:
        return []
    program = os.path.basename(arguments[0])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest = [word for word in arguments[1:end] if not word.startswith("-")] + arguments[end + 1 :]
    if program in _CHANGE_ALL or program in _CHANGE_LAST:
        into = [after for before, after in pairwise(arguments) if before in _INTO]
        into += [word.partition("=")[2] for word in arguments if word.startswith(f"{_INTO[1]}=")]
        return into + rest if program in _CHANGE_ALL else into or rest[-1:]
    if program == "find" and "-delete" in arguments:
        options = next(place for place, word in enumerate(arguments) if word.startswith("-"))
        return arguments[1:options] or ["."]
    if program in _IN_PLACE and any(each.startswith(("-i", "--in-place", "-pi", "-ni")) for each in arguments[1:]):
        scripts = [after for before, after in pairwise(arguments) if before in ("-e", "-f")]
        return [argument for argument in rest if argument not in scripts] if scripts else rest[1:]
    if program == "dd":
        return [argument[3:] for argument in rest if argument.startswith("of=")]
    return _written_by_git(arguments, rest) if program == "git" else []


def _written_by_git(arguments: list[str], rest: list[str]) -> list[str]:
    if rest[:1] and rest[0] in _GIT_PATHS:
        if "--" in arguments:
            return arguments[arguments.index("--") + 1 :]
        if {"-b", "-B", "--orphan"} & {*arguments}:  # a new branch
            return []
        # `git checkout main` changes a branch, or a file; `git checkout main FILE` changes a file.
        return rest[2:] if rest[0] == "checkout" else rest[1:]
    return []


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words of a command, and the files that its output goes to."""
    arguments, targets, is_target = [], [], False
    for word in words:
        if word.startswith("\0"):
            is_target = True
        elif is_target:
            if not word.startswith("&"):
                targets.append(word)
            is_target = False
        else:
            arguments.append(word)
    return arguments, targets


def _plain(words: list[str]) -> list[str]:
    """The paths among the words that need no shell to be understood. `src/*.py` stands for `src`."""
    plain = []
    for word in words:
        if any(sign in word for sign in "$`") or word in ("-", "/dev/null"):
            continue
        head = word
        while any(sign in head for sign in "*?[{"):
            head = os.path.dirname(head)
        plain.append(os.path.expanduser(head or "."))
    return plain


def _is_assignment(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()


class _Scanner:
    """Splits a shell command into the words of its simple commands.

    Quotes are taken away, and bodies of here-documents and comments are left out. A redirection is a word of its own
    that begins with a NUL, so that no quoted sign can be mistaken for one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._word: str | None = None
        self._commands = [list[str]()]
        self._endings = list[str]()  # of the here-documents that begin on this line

    def scan(self) -> list[list[str]]:
        while self._at < len(self._text):
            self._step(self._text[self._at])
        self._end_word()
        return [words for words in self._commands if words]

    def _step(self, letter: str) -> None:
        redirection = next((sign for sign in _REDIRECTIONS if self._sees(sign)), "")
        operator = next((sign for sign in _OPERATORS if self._sees(sign)), "")
        if letter in "'\"":
            self._quoted()
        elif letter == "\\":
            self._add(self._text[self._at + 1 : self._at + 2].replace("\n", ""), 2)
        elif letter == "#" and self._word is None:
            self._at = self._line_end()
        elif self._sees("<<") and not self._sees("<<<"):
            self._here_document()
        elif redirection:
            self._redirect(redirection)
        elif operator and not (operator in "{}" and self._word is not None):
            self._end_command(operator)
        elif letter in " \t":
            self._end_word()
            self._at += 1
        else:
            self._add(letter, 1)

    def _sees(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _add(self, text: str, length: int) -> None:
        self._word = (self._word or "") + text
        self._at += length

    def _end_word(self) -> None:
        if self._word is not None:
            self._commands[-1].append(self._word)
        self._word = None

    def _end_command(self, operator: str) -> None:
        self._end_word()
        self._commands.append([])
        self._at += len(operator)
        if operator == "\n":
            self._skip_bodies()

    def _quoted(self) -> None:
        quote, end = self._text[self._at], self._at + 1
        while end < len(self._text) and self._text[end] != quote:
            end += 2 if quote == '"' and self._text[end] == "\\" else 1
        self._add(self._text[self._at + 1 : end].replace('\\"', '"'), end + 1 - self._at)

    def _redirect(self, sign: str) -> None:
        if self._word is not None and self._word.isdecimal():  # the number of a descriptor
            self._word = None
        self._end_word()
        self._commands[-1].append(f"\0{sign}")
        self._at += len(sign)
        if self._sees("&"):  # such as 2>&1
            self._add("&", 1)

    def _here_document(self) -> None:
        end = self._at + 2
        while self._text[end : end + 1] in ("-", " ", "\t"):
            end += 1
        start = end
        while end < len(self._text) and self._text[end] not in " \t\n;&|<>()":
            end += 1
        self._endings.append(self._text[start:end].strip("'\"\\"))
        self._at = end

    def _skip_bodies(self) -> None:
        for ending in self._endings:
            while self._at < len(self._text):
                end = self._line_end()
                line, self._at = self._text[self._at : end].strip(), end + 1
                if line == ending:
                    break
        self._endings = []

    def _line_end(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end
