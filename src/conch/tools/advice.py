"""Advice in the words of the tools, for every door through which tools are called."""

from __future__ import annotations

STEPS = {
    "join_room": "Call join_path first.",
    "come_back": "Call join_path again to come back.",
    "find_rooms": "join_path or list_rooms give the rooms there are.",
    "verify_store": "`conch db verify` says more.",
    "check_identity": "`conch whoami` says who you are.",
    "join_topic": "Call topic_join first.",
    "find_topics": "topic_list gives those there are.",
    "create_topic": "topic_create makes one.",
    "find_home_topic": "join_path gives the topic of a room.",
    "read_closed_topic": "To read it under a name of your own, call topic_join with allow_closed.",
    "close_room": "close_room ends the room.",
    "claim_stick": "Call wait_for_turn to claim it.",
    "keep_stick": "Call wait_for_turn to claim or keep the stick.",
    "await_takeover": "wait_for_turn says when takeover opens.",
    "hand_over": "Call release_stick or pass_stick first, so that your work is not lost.",
    "reclaim_name": "Give the reclaim_token that came with it, or choose another name; "
    "an operator can free it with `conch names free`.",
    "free_name": "Choose another name; `conch names free {name}` frees this one.",
    "free_name_of_leaver": "Choose another name; if that agent has left for good, `conch names free {name}` frees it.",
    "adopt_name": "agent_adopt takes it over if its process is gone and left unfinished work; "
    "else choose another name.",
    "take_over_reservation": "Its owner seems to be gone: reserve with takeover_stale to take over.",
}
