"""Splits a shell command into words, as far as that is needed to see which files it plainly writes."""

from __future__ import annotations

OPEN, CLOSE, BODY, INPUT, STRING = "\0(", "\0)", "\0:", "\0<", "\0<<<"
_OPERATORS = (";", "&&", "||", "|&", "|", "&", "\n", "(", ")", "{", "}", "`")
_REDIRECTIONS = (">>", ">|", "&>>", "&>", ">", STRING[1:], "<>", INPUT[1:])


class Scanner:
    """Splits a shell command into the words of its simple commands.

    Quotes are taken away, and comments are left out. Words that begin with a NUL are signs, so that no quoted text can
    be mistaken for one: a redirection (of input if it begins with `INPUT`), the body of a here-document (`BODY`), or
    the beginning or end of a subshell, which is a command of its own.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._word: str | None = None
        self._commands = [list[str]()]
        self._documents = list[tuple[str, list[str]]]()  # that begin on this line: their endings and commands

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
            self._escaped()
        elif letter == "#" and self._word is None:
            self._at = self._line_end()
        elif self._sees("$(("):  # a calculation: `>` compares there
            end = self._text.find("))", self._at)
            self._add("$", (end if end >= 0 else len(self._text)) + 2 - self._at)
        elif self._sees("<<") and redirection != STRING[1:]:
            self._here_document()
        elif self._sees("<("):  # the output of a command, in place of a file
            self._add(letter, 1)
        elif redirection:
            self._redirect(redirection)
        elif operator and not (operator in "{}" and not self._is_brace(operator)):
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

    def _is_brace(self, brace: str) -> bool:
        """Whether a brace begins or ends a group of commands. In `find -exec rm {}`, it does not."""
        if self._word is not None:
            return False
        return self._text[self._at + 1 : self._at + 2] in (" ", "\n", "") if brace == "{" else not self._commands[-1]

    def _escaped(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter == "\n":  # the command goes on in the next line
            self._at += 2
        else:
            self._add(letter, 2)

    def _end_word(self) -> None:
        if self._word is not None:
            self._commands[-1].append(self._word)
        self._word = None

    def _end_command(self, operator: str) -> None:
        self._end_word()
        if operator in (OPEN[1:], CLOSE[1:]):
            self._commands.append([f"\0{operator}"])
        self._commands.append([])
        self._at += len(operator)
        if operator == "\n":
            self._read_bodies()

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
        if self._sees("&"):  # `2>&1` names a descriptor, and `>& file` a file
            is_descriptor = self._text[self._at + 1 : self._at + 2] in (*"0123456789-$",)
            self._at += 1
            self._word = "&" if is_descriptor else None

    def _here_document(self) -> None:
        end = self._at + 2
        while self._text[end : end + 1] in ("-", " ", "\t"):
            end += 1
        start = end
        while end < len(self._text) and self._text[end] not in " \t\n;&|<>()":
            end += 1
        self._documents.append((self._text[start:end].strip("'\"\\"), self._commands[-1]))
        self._at = end

    def _read_bodies(self) -> None:
        for ending, command in self._documents:
            lines = list[str]()
            while self._at < len(self._text):
                end = self._line_end()
                line, self._at = self._text[self._at : end], end + 1
                if line.strip() == ending:
                    break
                lines.append(line)
            command.append(BODY + "\n".join(lines))
        self._documents = []

    def _line_end(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end
