"""Everything else: help, setup, servers."""

from __future__ import annotations

from conch.doors.cli.catalogue import AGENT, INSTRUCTIONS, OTHERS
from conch.doors.cli.catalogue.options import EVERY, JSON, ROOM
from conch.doors.cli.command import Command, flag, grouped, port, switch, word, words

_HARNESSES = words(
    "harness",
    "HARNESS",
    "claude-code, codex, gemini, opencode, cursor, vscode, copilot, qwen or kilo; default: those on this machine",
    required=False,
)
_INSTALLING = (
    switch("--all", "every harness on this machine, which is the default"),
    switch("--project", "the settings of the project here, which everyone who works in it shares"),
    switch("--user", "your own settings, for all projects (default)", unless="--project"),
    switch("--print", "show every change, and make none"),
)

_TOOL_GROUPS = "turns, bus, questions, scopes, admin, everyday"  # a test compares this with the tools

COMMANDS = grouped(
    OTHERS,
    Command(
        "help",
        "help.show",
        "explain conch or one command",
        "Show all commands, or explain one.",
        (words("command", "COMMAND", "such as `wait` or `db wipe`", required=False), JSON),
        "  conch help reserve",
        reads=True,
        needs_store=False,
    ),
    Command(
        "version",
        "help.version",
        "print the version",
        "Print the version of conch; `conch -V` does the same.",
        (JSON,),
        reads=True,
        needs_store=False,
    ),
    Command(
        "completion",
        "completion.complete",
        "complete commands in bash, zsh or fish",
        "Print the script that completes commands, options, agents, topics and rooms in a shell. The script asks "
        "`conch completion candidates`, which looks at the store and changes nothing.",
        (
            word("shell", "SHELL", "bash, zsh or fish; candidates: what the script asks")._replace(
                choices=("bash", "zsh", "fish", "candidates")
            ),
            words("words", "WORD", "candidates: the words typed so far, after `--`", required=False),
            JSON,
        ),
        '  eval "$(conch completion bash)"     in ~/.bashrc\n'
        '  eval "$(conch completion zsh)"      in ~/.zshrc, after compinit\n'
        "  conch completion fish | source      in ~/.config/fish/config.fish",
        reads=True,
        needs_store=False,
    ),
    Command(
        "whoami",
        "agents.whoami",
        "which agent you are",
        "Show which agent you are. If CONCH_AGENT_ID is exported, it decides.",
        (switch("--explain", "show every signal, the agent it is linked to, and the signal that won"), *EVERY),
        reads=True,
    ),
    Command(
        "import",
        "imports.import_data",
        "import the data of another program",
        "Import the topics, messages, names and cursors of a message bus (schema version 5 or 6), or the rooms, "
        "members and log of a talking stick. The file does not change. Importing it again adds only what is new in it.",
        (
            word("file", "FILE", "the database file of the other program"),
            switch("--dry-run", "show what would be added, and change nothing"),
            *EVERY,
        ),
        "  conch import bus.db --dry-run",
    ),
    Command(
        "mcp",
        "",
        "serve MCP on standard input and output (harnesses start this)",
        "Serve MCP on standard input and output. Harnesses start this command; you rarely do.",
        (
            flag(
                "--tools", "GROUPS", "only these groups of tools, separated by commas (default: all): " + _TOOL_GROUPS
            ),
            switch("--wake", "wake the agent when it has stopped and something comes for it"),
        ),
        "  conch mcp --tools turns,bus",
    ),
    Command(
        "doctor",
        "doctor.doctor",
        "check the setup, and say what to do",
        "Check the store with a real write and read, the bell with a real ring, permissions, clocks and versions. "
        "Start the server and a hook as a harness does, and read back the settings of each harness. Each finding says "
        "what to do. The exit status is 0 only if there is no problem.",
        EVERY,
        reads=True,
    ),
    Command(
        "hook",
        "",
        "answer a hook of a harness (harnesses start this)",
        "Read what a harness tells its hooks, as JSON on standard input, and answer in that harness's form. "
        "`conch install` sets the hooks up; you rarely run this. It always exits with 0, and prints `{}` if there is "
        "nothing to say or something is wrong.",
        (
            word("event", "EVENT", "such as PreToolUse or SessionStart, as the harness calls it"),
            flag("--harness", "NAME", "the harness that asks; default: the one that the environment shows"),
        ),
        needs_store=False,
    ),
    Command(
        "install",
        "installing.install",
        "set up the harnesses on this machine to use conch",
        "Write what a harness needs to take part: the MCP server, hooks, and the skill. Without a name, every harness "
        "on this machine gets it. conch only adds its own entries, keeps comments and links, and leaves a file alone "
        "if it cannot read it. Running it again changes nothing; `conch uninstall` undoes everything.",
        (
            _HARNESSES,
            *_INSTALLING,
            switch("--instructions", "also add a paragraph to AGENTS.md, CLAUDE.md or GEMINI.md"),
            switch("--wake", "also wake an agent that has stopped, when the stick or a message comes for it"),
            JSON,
        ),
        "  conch install                    every harness on this machine\n"
        "  conch install claude codex       only these two\n"
        "  conch install claude --project   for everyone who works in this project",
        needs_store=False,
    ),
    Command(
        "uninstall",
        "installing.uninstall",
        "undo what `conch install` wrote",
        "Undo exactly what `conch install` wrote. A file that has not changed since is restored, byte for byte. "
        "From any other file, conch removes only its own entries.",
        (_HARNESSES, *_INSTALLING, JSON),
        needs_store=False,
    ),
    Command(
        "serve",
        "",
        "serve the console for a browser, and MCP over HTTP",
        "Serve the console: pages in a browser on which you see all rooms live and can step in. The same server speaks "
        "MCP at /mcp. It prints an address with a token, which signs your browser in. It needs the extra `serve`.",
        (
            flag("--port", "N", "the port; default: 8377, or the next free one", port),
            flag("--allow-host", "HOST", "a name under which a reverse proxy serves it", many=True),
            flag("--bind", "ADDRESS", "the address to listen on (default: 127.0.0.1)", default="127.0.0.1"),
            flag("--cert", "FILE", "the TLS certificate; needs --key"),
            flag("--key", "FILE", "the key of the TLS certificate"),
            switch("--force", "allow other machines to connect without TLS"),
            *EVERY,
        ),
        "  conch serve\n  conch serve --port 9000 --allow-host console.example",
        reads=True,
    ),
    Command(
        "demo",
        "demo.demo",
        "watch three scripted agents take turns, fail and recover",
        "Watch three scripted agents take turns in a scratch repository.",
        (switch("--keep", "keep the scratch repository and its store"),),
        needs_store=False,
    ),
    Command(
        "init",
        "agents.init",
        "join the room under a new name or a resumed one",
        "Join the room of the workspace and decide who you are in it: keep your name, "
        "register a new one, or resume the identity of an agent that is gone and left "
        "unfinished work. On a terminal it asks you. Otherwise, or with "
        "--non-interactive, it registers you if there is no agent to resume. If there is "
        "one, it fails and recommends what to do.",
        (
            switch("--non-interactive", "never ask; fail if a person must decide"),
            flag(
                "--adopt", "AGENT", "resume this identity; without unfinished work, a person at a terminal must agree"
            ),
            flag("--register", "NAME", "start under this name", unless="--adopt"),
            *ROOM,
        ),
        "  conch init --non-interactive --json\n  conch init --adopt amber-otter",
        invalid=AGENT.invalid,
    ),
)

_PROJECT = (flag("--path", "DIR", "a directory of the project; default: the working directory"), JSON)

COMMANDS |= grouped(
    INSTRUCTIONS,
    Command(
        "instructions show",
        "instructing.show",
        "show the instructions for agents",
        "Show the instructions that the MCP server gives to a model, with your working agreement and that of this "
        "project, and where both are kept.",
        _PROJECT,
        reads=True,
        needs_store=False,
    ),
    Command(
        "instructions edit",
        "instructing.edit",
        "change the working agreement of this project, or your own",
        "Change the working agreement of this project (.conch/instructions.md), or your own with --user. Agents get it "
        "with the instructions of the MCP server, and when a session starts. On a terminal this opens $EDITOR; "
        "otherwise it reads standard input. An empty text deletes the agreement.",
        (
            word("text", "TEXT", "the whole agreement; `-` reads standard input", required=False),
            switch("--user", "your own agreement, for all projects"),
            *_PROJECT,
        ),
        '  conch instructions edit "Run the tests before you hand over."\n'
        "  conch instructions edit --user - < agreement.md",
        needs_store=False,
    ),
)
