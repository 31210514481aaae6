"""What a caller of tools can do after a refusal. The command line has its own wording of the same steps."""

from __future__ import annotations

STEPS = {
    "join_room": "Call `join_path` first.",
    "join_first": "Call `join_path` or `topic_join` first.",
    "come_back": "Call `join_path` to join again.",
    "ask_before_joining": "Stop, and ask before you join again.",
    "leave_room": "Call `leave_path` to leave.",
    "nudge_by_command": "Send another type of message.",
    "find_rooms": "Call `list_rooms` to see the rooms. Call `join_path` to join one.",
    "verify_store": "Run `conch db verify` for details.",
    "find_agents": "Call `agent_list` to see the agents.",
    "join_topic": "Call `topic_join` first.",
    "find_topics": "Call `topic_list` to see the topics.",
    "create_topic": "Call `topic_create` to create one.",
    "find_home_topic": "Call `join_path` to get the topic of a room.",
    "read_closed_topic": "To read it under your own name, call `topic_join` with allow_closed.",
    "close_room": "Call `close_room` to close the room.",
    "open_room": "Call `join_path` to open a new one there.",
    "find_questions": "Call `pending_list` to see the open questions.",
    "find_notices": "Call `event_inbox` to see yours.",
    "find_reservations": "Call `scope_list` to see all reservations.",
    "claim_stick": "Call `wait_for_turn` to claim it.",
    "keep_stick": "Call `wait_for_turn` to claim or keep the stick.",
    "stop": "Stop, and call `get_room_state`.",
    "await_takeover": "Call `wait_for_turn`: it returns takeover_available when you may take over.",
    "hand_over": "Call `release_stick` or `pass_stick` first, so that the next agent gets your handoff.",
    "reclaim_name": "Pass the reclaim_token you got with the name, or choose another name. "
    "A person can free the name with `conch names free`.",
    "free_name": "Choose another name, or ask a person to free this one with `conch names free {name}`.",
    "free_name_of_leaver": "Choose another name. If that agent has left for good, a person can free its name with "
    "`conch names free {name}`.",
    "adopt_name": "Choose another name. If that agent is gone and left unfinished work, `agent_adopt` "
    "takes over the name.",
    "own_name": "Register your own name instead.",
    "fit_payload": "Its fields are {known}.",
    "take_over_reservation": "Its owner seems to be gone. To take over, reserve with takeover_stale.",
}
