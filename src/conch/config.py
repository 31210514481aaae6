"""Every setting, in one table. The environment variable is `CONCH_` and the name in capitals; some have aliases."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from conch.errors import InvalidArgument, InvalidSetting, LimitExceeded
from conch.lean import Any, NamedTuple

_WEEK_MS = 7 * 24 * 3_600_000
TURN_WAIT_MS = 30_000  # of one wait_for_turn, unless a policy or a known harness says otherwise
WAITING_FIRST = "waiting_first"  # the release order that prefers members that wait
LONGEST_WAIT_MS = 50_000  # common MCP clients give up after 60 s, and a later reply would be lost


class Setting(NamedTuple):
    name: str
    default: Any
    about: str
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"CONCH_{self.name.upper()}"

    def parse(self, text: str) -> Any:
        """Turn the text of a variable into a value. ValueError says what would be accepted."""
        if self.choices:
            if text not in self.choices:
                raise ValueError(f"must be one of {', '.join(self.choices)}")
            return text
        if isinstance(self.default, str):
            return text
        try:
            return self.check(type(self.default)(text))
        except ValueError:
            raise ValueError(self._range) from None

    def check(self, value: Any) -> Any:
        """Return the value if its type and range are right. ValueError says what would be accepted."""
        if self.choices:
            if value not in self.choices:
                raise ValueError(f"must be one of {', '.join(self.choices)}")
        # Not isinstance: True is an int in Python, but not a number of milliseconds.
        elif type(value) is not type(self.default) or not self.low <= value <= self.high:
            raise ValueError(self._range)
        return value

    @property
    def _range(self) -> str:
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        return f"must be {kind} from {self.low} to {self.high}"


def _policy(name: str, default: int, about: str, low: int = 1, high: int = _WEEK_MS) -> Setting:
    return Setting(name, default, about, low, high, aliases=(f"TALKING_STICK_{name.upper()}",))


def _bus(name: str, default: int, about: str, high: int) -> Setting:
    return Setting(name, default, about, 1, high, aliases=(f"AGENT_BUS_{name.upper()}",))


POLICY_SETTINGS = (
    _policy("owner_lease_ttl_ms", 45 * 60_000, "how long an owner may stay silent before others may take over"),
    _policy("heartbeat_interval_ms", 5 * 60_000, "how often an owner should renew its lease"),
    _policy("claim_ttl_ms", 20 * 60_000, "how long a recipient has to claim the stick before others may take over"),
    _policy(
        "wait_for_turn_max_wait_ms",
        TURN_WAIT_MS,
        "the longest wait of one wait_for_turn; the default is longer in a harness that waits longer for a reply",
        0,
        LONGEST_WAIT_MS,
    ),
    _policy("wait_for_turn_poll_ms", 250, "how often a waiting agent checks again if it cannot use a bell", 10, 60_000),
    _policy("presence_ttl_ms", 4 * 3_600_000, "how long after its last call a member counts as active"),
    Setting(
        "release_order",
        "sequence",
        "who gets a released stick: the next member in order, or the next one that is waiting right now",
        choices=("sequence", WAITING_FIRST),
    ),
    Setting(
        "guard",
        "warn",
        "what a hook does before an edit of a file that another agent has reserved; enforce_stick also refuses "
        "edits while another agent holds the stick",
        choices=("off", "warn", "enforce", "enforce_stick"),
    ),
)

SETTINGS = (
    Setting("data_dir", "", "the directory of the store and the bells", aliases=("TALKING_STICK_DATA_DIR",)),
    Setting(
        "store",
        "",
        "the store to use instead of the one in the data directory: a file, or the URL of a server",
    ),
    Setting(
        "synchronous",
        "normal",
        "full: every commit survives a power cut; normal: a power cut may lose the last commits, but only whole ones",
        choices=("normal", "full"),
    ),
    Setting(
        "retention_days",
        0,
        "after how many days a server deletes what is closed, read, ended or accepted; 0 keeps everything",
        0,
        36_500,
    ),
    Setting("busy_timeout_ms", 5_000, "how long a writer waits for the lock before DB_BUSY", 1, 600_000),
    Setting(
        "max_handoff_bytes", 256 * 1024, "the largest handoff, or payload of a notice, as JSON", 1_024, 16 * 1024 * 1024
    ),
    Setting("max_note_chars", 16_384, "the longest note", 1, 1_048_576),
    Setting("max_reason_chars", 2_000, "the longest reason, such as that for a takeover", 1, 65_536),
    _bus("max_message_chars", 65_536, "the longest message", 1_048_576),
    _bus("max_metadata_bytes", 16_384, "the largest metadata of a message or a topic, as JSON", 1_048_576),
    _bus("max_question_chars", 8_000, "the longest question", 1_048_576),
    _bus("max_answer_chars", 65_536, "the longest answer", 1_048_576),
    _bus("max_publish_batch", 50, "how many messages or answers one call may carry", 1_000),
    _bus("poll_initial_ms", 250, "how soon a wait for messages checks again if it cannot use a bell", 60_000),
    _bus(
        "poll_max_ms",
        1_000,
        "the longest pause between two such checks; each pause is twice as long as the one before",
        60_000,
    ),
    Setting(
        "stale_minutes",
        15.0,
        "how long after its last call an agent counts as stale; after twice that time, as evicted",
        0.01,
        10_080,
        aliases=("BB_AGENT_STALE_MINUTES",),
    ),
    Setting(
        "max_reply_bytes",
        32 * 1024,
        "the largest reply of a tool, as JSON; a single item that is larger is still returned whole",
        4_096,
        64 * 1024 * 1024,
    ),
    Setting("max_line_bytes", 4 * 1024 * 1024, "the longest line that the MCP server accepts", 1_000, 64 * 1024 * 1024),
    *POLICY_SETTINGS,
)


class Policy(NamedTuple):
    """A room's policy: six durations, who gets a released stick, and how reservations are guarded."""

    owner_lease_ttl_ms: int
    heartbeat_interval_ms: int
    claim_ttl_ms: int
    wait_for_turn_max_wait_ms: int
    wait_for_turn_poll_ms: int
    presence_ttl_ms: int
    release_order: str
    guard: str

    def merged(self, overrides: Mapping[str, Any]) -> Policy:
        """This policy with some values replaced."""
        policy = self._replace(**overrides) if overrides else self
        # An owner must be able to renew its lease in time, so a short lease shortens the heartbeat interval too.
        if policy.heartbeat_interval_ms >= policy.owner_lease_ttl_ms:
            policy = policy._replace(heartbeat_interval_ms=max(1, policy.owner_lease_ttl_ms // 3))
        return policy


def check_policy(overrides: Mapping[str, Any]) -> None:
    """Refuse invalid policy values. The error names the value."""
    known = {setting.name: setting for setting in POLICY_SETTINGS}
    for name, value in overrides.items():
        field = f"policy.{name}"
        if name not in known:
            raise InvalidArgument(f"{field} is not a policy value. The values are {', '.join(known)}.", field=field)
        try:
            known[name].check(value)
        except ValueError as problem:
            raise InvalidArgument(f"{field} {problem}.", field=field) from None


def check_heartbeat(overrides: Mapping[str, Any], defaults: Policy) -> None:
    """Refuse a chosen heartbeat interval that is not shorter than the lease. An interval not chosen adapts."""
    try:
        _compare_heartbeat(overrides, defaults)
    except ValueError as problem:
        field = "policy.heartbeat_interval_ms"
        raise InvalidArgument(f"{field} {problem}. Set both together.", field=field) from None


def _compare_heartbeat(chosen: Mapping[str, Any], defaults: Policy) -> None:
    heartbeat = chosen.get("heartbeat_interval_ms", 0)
    lease = chosen.get("owner_lease_ttl_ms", defaults.owner_lease_ttl_ms)
    if heartbeat >= lease:
        raise ValueError(f"({heartbeat}) must be shorter than owner_lease_ttl_ms ({lease})")


class Settings(NamedTuple):
    """The settings of one process. `Settings.load(os.environ)` reads and checks them."""

    data_dir: str
    store: str
    synchronous: str
    retention_days: int
    busy_timeout_ms: int
    max_handoff_bytes: int
    max_note_chars: int
    max_reason_chars: int
    max_message_chars: int
    max_metadata_bytes: int
    max_question_chars: int
    max_answer_chars: int
    max_publish_batch: int
    poll_initial_ms: int
    poll_max_ms: int
    stale_minutes: float
    max_reply_bytes: int
    max_line_bytes: int
    policy: Policy

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings from the environment. InvalidSetting names the invalid variable."""
        given = {s.name: value for s in SETTINGS if (value := _read(s, environ)) is not None}
        policy = Policy(**{s.name: s.default for s in POLICY_SETTINGS})
        chosen = {s.name: given[s.name] for s in POLICY_SETTINGS if s.name in given}
        try:
            _compare_heartbeat(chosen, policy)
        except ValueError as problem:
            variable = "CONCH_HEARTBEAT_INTERVAL_MS"
            raise InvalidSetting(f"{variable} {problem}.", setting=variable) from None
        policy = policy.merged(chosen)
        plain = {s.name: given.get(s.name, s.default) for s in SETTINGS if s not in POLICY_SETTINGS}
        chosen_dir: str = plain["data_dir"]  # a `~` in quotes reaches us as it is
        plain["data_dir"] = os.path.expanduser(chosen_dir) or default_data_dir(environ, sys.platform)
        return cls(**plain, policy=policy)


def _read(setting: Setting, environ: Mapping[str, str]) -> Any:
    for variable in (setting.variable, *setting.aliases):
        text = environ.get(variable, "")
        if text:  # an empty variable counts as unset
            try:
                return setting.parse(text)
            except ValueError as problem:
                raise InvalidSetting(f"{variable} {problem}, not {text[:80]!r}.", setting=variable) from None
    return None


def default_data_dir(environ: Mapping[str, str], platform: str) -> str:
    """`%APPDATA%` on Windows; `~/.local/share/conch` elsewhere, so that scripts work on Linux and macOS alike."""
    if platform == "win32":
        return os.path.join(environ.get("APPDATA") or os.path.expanduser("~"), "conch")
    # The XDG specification says to ignore a relative value.
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "conch")


def check_length(field: str, text: str, limit: int, setting: str) -> None:
    """Refuse a text that is too long. LimitExceeded names the field, the limit and the variable that sets it."""
    if len(text) > limit:
        message = f"{field} is {len(text)} characters long; at most {limit} are allowed (CONCH_{setting.upper()})."
        raise LimitExceeded(message, field=field, limit=limit, actual=len(text))
