"""What is played: the four examples of the seed, one act each, in one room."""

from __future__ import annotations

from collections.abc import Callable

from conch.doors.cli.demo.actors import Actor, Reply, Role
from conch.doors.cli.demo.pipes import Object
from conch.doors.cli.demo.play import Play
from conch.doors.cli.demo.screen import RED
from conch.doors.cli.demo.stage import Stage
from conch.typed import NamedTuple

CODEX = Role("codex", "codex:demo", "codex-mcp-client")
CLAUDE = Role("claude", "claude-code:demo", "claude-code")
GEMINI = Role("gemini", "gemini:demo", "gemini-cli-mcp-client")
ROLES = (CODEX, CLAUDE, GEMINI)

SHORT_CLAIM_TTL_MS = 700


def handoff(status: str, next_action: str, role: str, first: int, last: int | None = None) -> Object:
    """A handoff that points into the plan."""
    artifact = {"path": "plan.md", "lines": [first, last or first], "role": role}
    return {"status": status, "next_action": next_action, "artifacts": [artifact]}


WROTE_PLAN = handoff("wrote the plan, steps 1 to 3", "look for gaps in it", "review", 1, 5)
REVIEWED_PLAN = handoff("read the plan; step 3 is thin on stale entries", "say more in step 3", "edit", 5)
EXTENDED_PLAN = handoff("step 3 now covers stale entries", "start on step 1", "context", 3)
FOUND_RACE = handoff("step 2 may race with a second writer", "does the lease cover it?", "review", 4)
NO_RACE = handoff("the lease covers it: no race", "write step 2", "edit", 4)
WROTE_STEP_2 = handoff("step 2 is written", "test it", "examine", 4)
TESTED_STEP_2 = handoff("tested step 2: it holds", "you missed a turn; take step 3", "edit", 5)
CLAIMS_STEP_3 = handoff("step 3 is done", "check it", "review", 5)


class Cast(NamedTuple):
    codex: Actor
    claude: Actor
    gemini: Actor
    hire: Callable[[Role], Actor]
    """Starts one more agent."""


def perform(play: Play, cast: Cast, stage: Stage) -> None:
    """All four acts. Unexpected as soon as a reply is not what the seed says."""
    play_round_robin(play, cast, stage.checkout)
    play_explicit_skip(play, cast)
    play_missed_recipient(play, cast)
    play_crashed_owner(play, cast, stage.checkout)


def play_round_robin(play: Play, cast: Cast, path: str) -> None:
    codex, claude, gemini, _ = cast
    play.screen.headline("Act 1: round robin", "The next in sequence gets the stick, and the handoff.")
    for actor in (codex, claude, gemini):
        play.join(actor, path)
    play.look_round(gemini)
    play.claim(codex)
    play.wait(claude)
    play.wait(gemini, silent=True)
    written = play.release(codex, claude, WROTE_PLAN)
    play.receive(claude, written, "sequence")
    play.wait(codex, silent=True)
    reviewed = play.release(claude, gemini, REVIEWED_PLAN)
    play.receive(gemini, reviewed, "sequence")
    extended = play.release(gemini, codex, EXTENDED_PLAN)
    play.receive(codex, extended, "sequence")


def play_explicit_skip(play: Play, cast: Cast) -> None:
    codex, claude, gemini, _ = cast
    play.screen.headline("Act 2: an explicit skip", "The owner chooses; the sequence goes on from there.")
    seen = play.look(claude)
    play.expect(claude, seen, status="not_yet", current_owner=codex.role.agent_id)
    play.wait(claude, silent=True, cursor=seen.data["cursor"])
    play.wait(gemini, silent=True)
    passed = play.pass_to(codex, gemini, FOUND_RACE)
    with play.screen.in_order():
        play.receive(gemini, passed, "direct_pass")
        skipped = play.waited(claude, status="not_yet")
        play.tell(skipped.arrived_at, claude, f"waits too: {whose_move(play, skipped.data)}")
    play.wait(codex, silent=True)
    settled = play.release(gemini, codex, NO_RACE)
    play.receive(codex, settled, "sequence")


def play_missed_recipient(play: Play, cast: Cast) -> None:
    codex, claude, gemini, _ = cast
    play.screen.headline("Act 3: a missed recipient", "Nobody is waited for without end.")
    limit = play.set_claim_ttl(codex, SHORT_CLAIM_TTL_MS)
    play.tell(limit.sent_at, codex, f"set the room's claim_ttl_ms to {limit.data['policy']['claim_ttl_ms']}")
    play.wait(gemini, silent=True)
    offer = play.release(codex, claude, WROTE_STEP_2)
    lapsed = play.waited(gemini, status="takeover_available", reason="claim_timeout")
    play.tell(lapsed.arrived_at, gemini, f"hears {news_of(lapsed, offer.at)}")
    takeover = {"room_id": play.room_id, "expected_turn_id": play.turn.turn_id, "reason": "claim timeout expired"}
    grab = play.call(codex, "takeover_stick", **takeover)
    play.refused(codex, grab, "takeover_not_available", "wants it back")
    play.take_over(gemini, claude, "claim timeout expired")
    play.read_log(gemini, offer)
    late = play.look(claude)
    play.expect(claude, late, status="not_yet", turn_id=play.turn.turn_id, current_owner=gemini.role.agent_id)
    play.tell(late.arrived_at, claude, f"comes late: {whose_move(play, late.data)}")
    play.set_claim_ttl(gemini, None)


def play_crashed_owner(play: Play, cast: Cast, path: str) -> None:
    codex, claude, gemini, hire = cast
    play.screen.headline("Act 4: a crashed owner", "Its death is seen at once, and its lease is void.")
    play.wait(claude, silent=True)
    offer = play.pass_to(gemini, claude, TESTED_STEP_2)
    play.receive(claude, offer, "direct_pass")
    lost = play.key()
    play.wait(codex, silent=True)
    play.wait(gemini, silent=True)
    killed_at = claude.crash()
    play.tell(killed_at, claude, f"is killed holding the stick: SIGKILL to process {claude.pid}", colour=RED)
    with play.screen.in_order():
        for witness in (codex, gemini):
            gone = play.waited(witness, status="takeover_available", reason="owner_gone")
            play.tell(gone.arrived_at, witness, f"hears {news_of(gone, killed_at)}")
    play.take_over(codex, claude, "owner process is gone")
    play.read_log(codex, offer)
    return_from_the_dead(play, hire(CLAUDE), path, lost)


def return_from_the_dead(play: Play, claude: Actor, path: str, lost: Object) -> None:
    """The same agent in a new process still has the key of its lost turn; it opens nothing."""
    play.join(claude, path)
    turn_id = lost["expected_turn_id"]
    reply = play.call(claude, "release_stick", **lost, handoff=CLAIMS_STEP_3)
    play.refused(claude, reply, "turn_mismatch", f"releases turn {turn_id} with its old lease")
    current = {**lost, "expected_turn_id": play.turn.turn_id}
    reply = play.call(claude, "release_stick", **current, handoff=CLAIMS_STEP_3)
    play.refused(claude, reply, "stale_lease", f"tries the old lease on turn {play.turn.turn_id}")


def whose_move(play: Play, data: Object) -> str:
    owner, reserved_for = data["current_owner"], data["reserved_for"]
    who = f"{play.name_of(owner)} has it" if owner else f"it is reserved for {play.name_of(reserved_for)}"
    return f"{data['status']}, {who} (turn {data['turn_id']})"


def news_of(reply: Reply, since: int) -> str:
    """Why takeover is open, and how long after its cause the agent knew."""
    return f"{(reply.arrived_at - since) / 1e6:.1f} ms later: {reply.data['status']}, {reply.data['reason']}"
