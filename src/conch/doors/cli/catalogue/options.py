"""The options that commands of several areas share."""

from __future__ import annotations

from conch.doors.cli.command import flag, integer, switch, ttl_minutes, word

JSON = switch("--json", "print one JSON object: ok, command, data, error", heading="every command")
EVERY = (
    JSON,
    flag("--store", "STORE", "a file or a server's URL; default: see `conch db path`", heading="every command"),
)
ROOM = (
    flag("--path", "DIR", "the room of this path; default: the working directory", heading="which room"),
    flag("--room", "ID", "the room with this id", heading="which room"),
    *EVERY,
)
LIMIT = flag("--limit", "N", "at most this many (default: as many as fit into 32 KB)", integer)
AFTER = flag("--after", "CURSOR", "go on after this cursor, which the page before printed")
PAGES = (AFTER, LIMIT)
GIVEN_TOPIC = (
    word("topic", "TOPIC", "a topic's id or name; default: the room's home topic", required=False),
    *ROOM,
)
SPEAKER = (flag("--agent", "AGENT", "act as this agent (its label, name or agent_id); default: yourself"), *ROOM)
TOPIC = (flag("--topic", "TOPIC", "a topic's id or name; default: the room's home topic"), *SPEAKER)
REASON = flag("--reason", "TEXT", "the reason, which is recorded")
SCOPE_HELP = "a file, a directory, or 'dir/*', relative to the working directory"
BEAD = flag("--bead", "ID", "the work item (bead) it is for")
RESERVING = (
    flag("--ttl", "TIME", "how long it lasts, from 5m to 24h; a number: minutes (default: 2h)", ttl_minutes),
    switch("--takeover-stale", "take it over from stale or evicted owners"),
    BEAD,
    *SPEAKER,
)
ENDED = switch("--all", "include released and expired ones, newest first")
AGENT_HELP = "a label, a name or an agent_id, or the start of one; see `conch state`"
