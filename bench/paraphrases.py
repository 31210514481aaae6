"""Messages, a paraphrase of each in quite different words, and other messages to hide them among."""

from __future__ import annotations

import itertools

PAIRS = [
    ("The database connection was refused", "cannot reach postgres"),
    ("Tests pass on my laptop but not on the server", "green locally, red in CI"),
    ("I deleted the obsolete helper functions", "removed dead code"),
    ("The login page shows a blank screen", "sign-in is broken, nothing renders"),
    ("Memory keeps growing until the process is killed", "RAM leak, out-of-memory crash"),
    ("Please review my pull request", "could somebody look at this patch"),
    ("The certificate expired yesterday", "TLS is no longer valid"),
    ("Renamed the customer table to clients", "changed what we call buyers in SQL"),
    ("Two threads wait for each other forever", "deadlock"),
    ("The password is stored in plain text", "credentials are not encrypted"),
    ("Upgraded the library to the latest release", "bumped a dependency version"),
    ("The button is too small on phones", "hard to tap with mobile devices"),
    ("Queries got slower since the index was dropped", "bad performance when looking up rows"),
    ("We ran out of disk space", "storage volume full"),
    ("The cat walked over my keyboard", "kitten typed nonsense"),
    ("Wrote a guide for newcomers", "documentation to help beginners get started"),
    ("The clock of that host is five minutes behind", "wrong system time, skew"),
    ("Users are charged twice for one order", "duplicate payment"),
    ("The image does not load in Safari", "picture missing with Apple's browser"),
    ("Rolled back the release because of errors", "reverted a faulty deployment"),
    ("The function returns null when the list is empty", "nothing comes back for zero items"),
    ("E-mails end up in the spam folder", "our newsletters are treated as junk"),
    ("Somebody pushed directly to main", "committed onto master without asking"),
    ("The translation into German is incomplete", "missing localized strings"),
    ("It takes ten minutes to compile", "building is very slow"),
    ("The service restarts every hour", "daemon crashes periodically"),
    ("Dates are shown in the wrong zone", "timestamps off by some hours, UTC problem"),
    ("I will be on vacation next week", "away for holidays"),
    ("The price includes tax", "cost with VAT"),
    ("The download stops at ninety percent", "file transfer hangs near its end"),
]

WHO = ["The parser", "A worker", "The scheduler", "Our linter", "The cache", "A migration", "The router", "The editor"]
DOES = ["reads", "rejects", "logs", "copies", "sorts", "splits", "counts", "prints", "merges", "hashes", "skips"]
WHAT = ["every header", "nested arrays", "long identifiers", "the manifest", "optional fields", "quoted names"]
WHEN = ["twice", "before lunch", "under Linux", "as agreed", "in strict mode", "at startup", "for now", "on demand"]


def around(count: int) -> list[str]:
    """`count` messages that mean something else."""
    combinations = itertools.islice(itertools.product(WHEN, WHAT, DOES, WHO), 0, None, 4)
    return [f"{who} {does} {what} {when}" for when, what, does, who in itertools.islice(combinations, count)]
