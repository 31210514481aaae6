"""What is explored: which operations, by how many agents.

CI explores `BRIEF`; `make explore` explores `DEEP`, where more operations are suspended between their transactions and
processes die in the middle of them.
"""

from __future__ import annotations

from tests.explore.operations import OPERATIONS
from tests.explore.search import Scenario

# -- two agents with six operations each

STICK = Scenario(
    "the stick and deaths",
    2,
    6,
    ("wait", "heartbeat", "heartbeat_with_this_turn", "release", "pass_to_next", "take_over"),
)
ROOM = Scenario(
    "the room",
    2,
    6,
    ("join", "leave", "wait", "release", "take_over", "note", "reverse_order", "close"),
    is_mortal=False,
    is_stepwise=False,
)
NEW_ROOM = Scenario("a new room", 2, 6, ("join", "leave", "wait"), has_joined=False, is_mortal=False)
LOST_CLAIMS = Scenario("lost claims", 2, 6, ("wait", "wait_in_vain", "heartbeat", "release"), is_mortal=False)
RESERVATIONS = Scenario(
    "reservations",
    2,
    6,
    ("join", "leave", "reserve_folder", "reserve_file", "take_over_folder", "free_file"),
    is_mortal=False,
    is_stepwise=False,
)
MESSAGES = Scenario(
    "messages", 2, 6, ("send", "sync", "sync_in_vain", "read_again"), is_mortal=False, is_stepwise=False
)
LOST_REPLIES = Scenario("lost replies", 2, 6, ("send", "sync", "sync_in_vain"), is_mortal=False)
QUESTIONS = Scenario("questions", 2, 6, ("ask", "answer", "cancel_question"), is_mortal=False, is_stepwise=False)

STEPPING_IN = Scenario(
    "stepping in",
    2,
    6,
    ("join", "wait", "release", "force", "kick_next"),
    is_mortal=False,
    is_stepwise=False,
)

# Two domains together: an agent that leaves the room or loses the stick may have reserved files.
STICK_AND_FILES = Scenario(
    "the stick and reservations",
    2,
    6,
    ("join", "leave", "wait", "release", "take_over", "reserve_folder", "free_file", "take_over_folder"),
    is_mortal=False,
    is_stepwise=False,
)

# -- three agents with four operations each

THREE = Scenario(
    "three agents",
    3,
    4,
    ("wait", "heartbeat", "release", "pass_to_next", "pass_to_second_next", "take_over"),
    is_mortal=False,
    is_stepwise=False,
)

# -- everything together, as far as it goes

EVERYTHING = Scenario(
    "everything",
    2,
    1,
    tuple(name for name in OPERATIONS if name not in ("identify_itself", "insist")),
    is_stepwise=False,
)

BRIEF = (
    STICK._replace(name="the stick", is_mortal=False),
    Scenario("deaths", 2, 6, ("wait", "heartbeat", "release", "take_over"), is_stepwise=False),
    ROOM,
    NEW_ROOM,
    LOST_CLAIMS,
    RESERVATIONS,
    MESSAGES,
    QUESTIONS,
    STEPPING_IN,
    THREE,
)
DEEP = (
    STICK,
    ROOM._replace(name="the room, stepwise", each=8, is_stepwise=True),
    NEW_ROOM._replace(name="a new room and its end", operations=("join", "wait", "close")),
    LOST_CLAIMS._replace(name="lost claims and deaths", is_mortal=True),
    RESERVATIONS._replace(name="reservations and deaths", is_mortal=True, is_stepwise=True),
    LOST_REPLIES,
    MESSAGES._replace(name="messages, stepwise", is_stepwise=True),
    QUESTIONS._replace(name="questions and deaths", is_mortal=True, is_stepwise=True),
    STEPPING_IN._replace(name="stepping in, stepwise, and deaths", each=4, is_mortal=True, is_stepwise=True),
    STICK_AND_FILES,
    THREE._replace(name="three agents and deaths", is_mortal=True),
    THREE._replace(name="three agents, stepwise", is_stepwise=True),
    EVERYTHING,
)
