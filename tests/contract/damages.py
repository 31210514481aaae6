"""Deliberate damages of a store, each with the table that must be named and words that must say what is wrong.

They are made in plain SQL, with all constraints of the engine turned off, on the store that `test_verifying.py` fills.
"""

from __future__ import annotations

from typing import NamedTuple


class Damage(NamedTuple):
    table: str
    words: str
    sql: str
    engines: tuple[str, ...] = ("sqlite", "postgres")


OPEN_HOME = "(SELECT topic_id FROM path_rooms WHERE state <> 'closed')"
PINK = "(SELECT topic_id FROM topics WHERE name = 'pink')"
FIRST = f"(SELECT message_id FROM messages WHERE topic_id = {PINK} AND seq = 1)"
LAST = f"(SELECT max(seq) FROM messages WHERE topic_id = {PINK})"
PENDING = "(SELECT question_id FROM questions WHERE status = 'pending')"
HOME_PEER = f"(SELECT max(peer_id) FROM peers WHERE topic_id = {OPEN_HOME})"
BLOCKED = "(SELECT event_id FROM protocol_events WHERE event_type = 'BLOCKED')"
HELD = "(SELECT min(reservation_id) FROM reservations WHERE state = 'active' AND agent_id = 'bob:2')"
GONE = "(SELECT min(reservation_id) FROM reservations WHERE state = 'released')"
SQLITE, POSTGRES = ("sqlite",), ("postgres",)

META = {
    "no epoch": Damage("meta", "no epoch", "DELETE FROM meta WHERE key = 'epoch'"),
    "an empty epoch": Damage("meta", "is damaged", "UPDATE meta SET value = '' WHERE key = 'epoch'"),
    "an epoch that is none": Damage(
        "meta", "is damaged", "UPDATE meta SET value = 'the epoch of all' WHERE key = 'epoch'"
    ),
    "an unknown key": Damage("meta", "not one of conch's", "INSERT INTO meta VALUES ('pearl', '1')"),
    "no application": Damage("meta", "no application", "DELETE FROM meta WHERE key = 'application'"),
    "another application": Damage(
        "meta", "is ours, not conch", "UPDATE meta SET value = 'ours' WHERE key = 'application'", SQLITE
    ),
    "no application id": Damage("meta", "says 0", "PRAGMA application_id = 0", SQLITE),
    "no mark": Damage("meta", "is 0, which", "PRAGMA user_version = 0", SQLITE),
    "another mark": Damage("meta", "is 77, which", "PRAGMA user_version = 77", SQLITE),
    "lost changes": Damage("meta", "are missing", "INSERT INTO meta VALUES ('lost', '20260101T000000Z')", SQLITE),
    "a forgotten mark": Damage("meta", "no mark", "DELETE FROM meta WHERE key = 'mark'", SQLITE),
}

TYPES = {
    "a word in place of a time": Damage(
        "messages", "that is not of type integer", "UPDATE messages SET created_at = 'x'", SQLITE
    ),
    "a number that is not whole": Damage(
        "cursors", "that is not of type integer", "UPDATE cursors SET resets = 0.5", SQLITE
    ),
    "bytes in place of a text": Damage(
        "messages", "that is not of type text", "UPDATE messages SET content_markdown = x'00ff' WHERE seq = 1", SQLITE
    ),
    "text that is not UTF-8": Damage(
        "messages", "not UTF-8", "UPDATE messages SET content_markdown = CAST(x'ff41' AS TEXT) WHERE seq = 1", SQLITE
    ),
    "a text in place of a vector": Damage(
        "index_vectors", "that is not of type blob", "INSERT INTO index_vectors VALUES ('m', 1, 'words')", SQLITE
    ),
    "a time before all clocks": Damage("agents", "impossible last_seen_at", "UPDATE agents SET last_seen_at = -5"),
    "a time after all calendars": Damage(
        "path_rooms",
        "impossible lease_expires_at",
        "UPDATE path_rooms SET lease_expires_at = 4611686018427387904 WHERE owner IS NOT NULL",
    ),
    "a missing last row": Damage(
        "room_activity",
        "rows are missing",
        "DELETE FROM room_activity WHERE number = (SELECT max(number) FROM room_activity)",
        SQLITE,
    ),
    "a numbering that begins again": Damage("room_events", "has the number", "DELETE FROM sqlite_sequence", SQLITE),
    "a number that is the last one": Damage(
        "messages",
        "impossible number",
        "UPDATE messages SET number = 9223372036854775807 WHERE number = (SELECT max(number) FROM messages)",
    ),
}

AGENTS = {
    "an agent that is timed and is not": Damage("agents", "must be 0 or 1", "UPDATE agents SET is_timed = 2"),
    "half of a process": Damage("agents", "part of its process", "UPDATE agents SET pid = 7 WHERE agent_id = 'ada:1'"),
    "half of a member's process": Damage(
        "room_members", "part of its process", "UPDATE room_members SET boot_id = 'b'"
    ),
    "a member without a process that is gone": Damage(
        "room_members",
        "is marked as gone (1)",
        "UPDATE room_members SET is_gone = 1, host_id = NULL, boot_id = NULL, pid = NULL, process_started_at = NULL"
        " WHERE agent_id = 'bob:2'",
    ),
    "half of a connection's process": Damage(
        "connections",
        "not named after the process",
        "INSERT INTO connections (connection, agent_id, parent, client_name, pid, opened_at)"
        " VALUES ('c', 'ada:1', 'p', 'x', 7, 1)",
    ),
    "a connection of no agent": Damage(
        "connections",
        "does not exist",
        "INSERT INTO connections (connection, agent_id, parent, client_name, opened_at)"
        " VALUES ('c', 'ghost:1', 'p', 'x', 1)",
    ),
    "a connection of another process": Damage(
        "connections",
        "not named after the process",
        "INSERT INTO connections VALUES ('connection:h:b:7:9', 'ada:1', 'p', 'x', 'h', 'b', 8, 9, 1, NULL)",
    ),
    "a connection that was closed before it was opened": Damage(
        "connections",
        "closed before it was opened",
        "INSERT INTO connections VALUES ('connection:h:b:7:9', 'ada:1', 'p', 'x', 'h', 'b', 7, 9, 5, 4)",
    ),
    "an unknown kind of session": Damage("agents", "unknown kind", "UPDATE agents SET session_kind = 'x'"),
    "a member with an unknown kind of session": Damage(
        "room_members", "unknown kind", "UPDATE room_members SET session_kind = ''"
    ),
    "a name that is not listed": Damage(
        "name_skeletons", "is not listed", "DELETE FROM name_skeletons WHERE name = 'amber-otter'"
    ),
    "an agent_id that is not listed": Damage(
        "name_skeletons", "bob:2 is not listed", "DELETE FROM name_skeletons WHERE name = 'bob:2'"
    ),
    "a topic that is not listed": Damage(
        "name_skeletons", "pink is not listed", "DELETE FROM name_skeletons WHERE name = 'pink'"
    ),
    "a name that nobody listed": Damage(
        "name_skeletons", "is not listed", "UPDATE agents SET name = 'zinc' WHERE agent_id = 'ada:1'"
    ),
    "a shape of another name": Damage(
        "name_skeletons", "is not its own", "UPDATE name_skeletons SET skeleton = 'x' WHERE name = 'amber-otter'"
    ),
    "a registration that nobody made": Damage(
        "registrations", "not what room_activity says", "DELETE FROM room_activity WHERE kind = 'registered'"
    ),
    "a registration at another time": Damage(
        "registrations", "not what room_activity says", "UPDATE registrations SET registered_at = registered_at + 1"
    ),
    "a deleted registration": Damage("registrations", "is missing", "DELETE FROM registrations"),
    "an agent without a name": Damage("agents", "has no name", "UPDATE agents SET name = '' WHERE agent_id = 'ada:1'"),
    "a signal of no agent": Damage(
        "agent_signals", "does not exist", "INSERT INTO agent_signals VALUES ('session:x', 'ghost:1', 1)"
    ),
    "a deleted agent": Damage("room_members", "does not exist", "DELETE FROM agents WHERE agent_id = 'bob:2'"),
    "a registration of no agent": Damage(
        "registrations", "does not exist", "UPDATE registrations SET agent_id = 'ghost:1'"
    ),
}

ROOMS = {
    "an owner without a lease": Damage(
        "path_rooms", "lease_expires_at", "UPDATE path_rooms SET lease_expires_at = NULL WHERE owner IS NOT NULL"
    ),
    "an owner with an empty lease": Damage(
        "path_rooms", "with an empty lease_id", "UPDATE path_rooms SET lease_id = '' WHERE owner IS NOT NULL"
    ),
    "a claim of an owned room": Damage(
        "path_rooms", "claim_expires_at", "UPDATE path_rooms SET claim_expires_at = 5 WHERE owner IS NOT NULL"
    ),
    "an owner that is not a member": Damage(
        "path_rooms",
        "not a member",
        "DELETE FROM room_members WHERE agent_id = (SELECT owner FROM path_rooms WHERE owner IS NOT NULL)",
    ),
    "another owner": Damage(
        "path_rooms", "according to its log it is ada:1", "UPDATE path_rooms SET owner = 'bob:2' WHERE owner = 'ada:1'"
    ),
    "an idle room that is owned": Damage(
        "path_rooms",
        "The state of room",
        "UPDATE path_rooms SET state = 'idle', owner = NULL, lease_id = NULL, lease_expires_at = NULL"
        " WHERE owner = 'ada:1'",
    ),
    "another turn": Damage("path_rooms", "The turn_id of room", "UPDATE path_rooms SET turn_id = 99"),
    "another place in the sequence": Damage("path_rooms", "sequence_index", "UPDATE path_rooms SET sequence_index = 9"),
    "another policy": Damage(
        "path_rooms", "policy_json", "UPDATE path_rooms SET policy_json = '{\"claim_ttl_ms\": 1}'"
    ),
    "a policy that is not an object": Damage(
        "path_rooms", "not a JSON object", "UPDATE path_rooms SET policy_json = '[]' WHERE state = 'owned'"
    ),
    "a pending handoff that is none": Damage(
        "path_rooms", "is not a handoff of this room", "UPDATE path_rooms SET pending_handoff_event_seq = 1"
    ),
    "a room without its topic": Damage(
        "path_rooms", "home topic", "UPDATE path_rooms SET topic_id = 'topic_x' WHERE state = 'closed'"
    ),
    "a home topic that is none": Damage(
        "path_rooms", "home topic", "UPDATE topics SET mode = 'new' WHERE mode = 'home' AND status = 'open'"
    ),
    "an open topic of a closed room": Damage(
        "topics",
        "but its room",
        "UPDATE topics SET status = 'open', closed_at = NULL, close_reason = NULL WHERE mode = 'home'",
    ),
    "a home topic of no room": Damage(
        "topics", "belongs to no room", "UPDATE topics SET mode = 'home' WHERE name = 'pink'"
    ),
    "a home topic from another time": Damage(
        "topics", "created at different times", "UPDATE topics SET created_at = created_at + 1 WHERE mode = 'home'"
    ),
    "a home topic that was closed for another reason": Damage(
        "topics", "for different reasons", "UPDATE topics SET close_reason = 'tired' WHERE status = 'closed'"
    ),
    "two members with each other's names": Damage(
        "room_members",
        "on the room's topic it is called",
        "UPDATE room_members SET name = name || '-x' WHERE agent_id IN ('ada:1', 'bob:2');"
        "UPDATE room_members SET name = (SELECT replace(o.name, '-x', '') FROM room_members o"
        " WHERE o.room_id = room_members.room_id AND o.agent_id = 'ada:1') WHERE agent_id = 'bob:2'",
    ),
    "two members in one place": Damage("room_members", "have the same place", "UPDATE room_members SET ordinal = 0"),
    "a member in another place": Damage(
        "room_members", "ordinal of member bob:2", "UPDATE room_members SET ordinal = 9 WHERE agent_id = 'bob:2'"
    ),
    "a member without a name": Damage(
        "room_members", "has no name", "UPDATE room_members SET name = '' WHERE agent_id = 'bob:2'"
    ),
    "a member that waits since no time": Damage(
        "room_members", "was seen waiting", "UPDATE room_members SET waited_at = 1, waiting_since = NULL"
    ),
    "a member that was seen waiting before it began": Damage(
        "room_members", "was seen waiting", "UPDATE room_members SET waited_at = 1, waiting_since = 2"
    ),
    "a member of no room": Damage(
        "room_members", "does not exist", "UPDATE room_members SET room_id = 'room_x' WHERE agent_id = 'bob:2'"
    ),
}

LOG = {
    "a missing release": Damage(
        "room_events",
        "has not let go of the stick",
        "DELETE FROM room_events WHERE event_type = 'release' AND turn_id = 1",
    ),
    "a missing claim": Damage(
        "room_events",
        "it is in turn",
        "DELETE FROM room_events WHERE event_type = 'claim' AND turn_id = 2",
    ),
    "a missing join": Damage(
        "room_events",
        "is not a member",
        "DELETE FROM room_events WHERE event_type = 'join' AND from_agent_id = 'bob:2'",
    ),
    "a missing last event": Damage(
        "path_rooms",
        "last_event_seq",
        "DELETE FROM room_events WHERE event_seq = (SELECT last_event_seq FROM path_rooms WHERE state = 'owned')",
    ),
    "a takeover of nothing": Damage(
        "room_events",
        "nothing to take over",
        "UPDATE room_events SET event_type = 'takeover' WHERE turn_id = 1 AND event_type = 'claim'",
    ),
    "a claim of another's offer": Damage(
        "room_events",
        "was reserved for",
        "UPDATE room_events SET to_agent_id = 'eve:3' WHERE event_type = 'claim' AND turn_id = 2",
    ),
    "a claim that goes on from another handoff": Damage(
        "room_events",
        "it goes on from event 1",
        "UPDATE room_events SET details_json = '{\"handoff_event_seq\": 1}' WHERE event_type = 'claim' AND turn_id = 2",
    ),
    "a release by another": Damage(
        "room_events",
        "does not hold the stick",
        "UPDATE room_events SET from_agent_id = 'bob:2' WHERE turn_id = 1 AND event_type = 'release'",
    ),
    "a release without a handoff": Damage(
        "room_events", "it has no handoff", "UPDATE room_events SET handoff_json = NULL WHERE event_type = 'release'"
    ),
    "a handoff that is not JSON": Damage(
        "room_events", "cannot be replayed", "UPDATE room_events SET handoff_json = '{' WHERE event_type = 'release'"
    ),
    "an order of nobody": Damage(
        "room_events", "cannot be replayed", "UPDATE room_events SET details_json = '{}' WHERE event_type = 'reorder'"
    ),
    "an order that leaves one out": Damage(
        "room_events",
        "its order does not match the members",
        'UPDATE room_events SET details_json = \'{"order": ["bob:2"], "sequence_index": 0}\''
        " WHERE event_type = 'reorder'",
    ),
    "a note of another turn": Damage(
        "room_events", "belongs to turn 7", "UPDATE room_events SET turn_id = 7 WHERE event_type = 'note'"
    ),
    "an event of an unknown type": Damage(
        "room_events", "unknown type, dance", "UPDATE room_events SET event_type = 'dance' WHERE event_type = 'note'"
    ),
    "a missing note": Damage("room_events", "it came after event", "DELETE FROM room_events WHERE event_type = 'note'"),
    "an event of no agent": Damage(
        "room_events", "does not exist", "UPDATE room_events SET from_agent_id = 'ghost:1' WHERE event_type = 'note'"
    ),
    "an event after the end": Damage(
        "room_events",
        "was closed before",
        "INSERT INTO room_events (event_id, room_id, turn_id, event_type, from_agent_id, created_at)"
        " SELECT 'evt_x', room_id, turn_id, 'note', 'ada:1', 1 FROM path_rooms WHERE state = 'closed'",
    ),
    "a place that is taken": Damage(
        "room_events",
        "is not free",
        "UPDATE room_events SET details_json = '{\"ordinal\": 0}' WHERE event_type = 'join'",
    ),
    "an owner that left": Damage(
        "room_events",
        "the owner of the stick cannot leave",
        "UPDATE room_events SET event_type = 'leave', from_agent_id = 'ada:1' WHERE event_type = 'note'",
    ),
    "a note with a handoff": Damage(
        "room_events", "it has a handoff", "UPDATE room_events SET handoff_json = '{}' WHERE event_type = 'note'"
    ),
    "a note without a text": Damage(
        "room_events", "it has no text", "UPDATE room_events SET details_json = NULL WHERE event_type = 'note'"
    ),
    "a note to an agent": Damage(
        "room_events",
        "it is addressed to bob:2",
        "UPDATE room_events SET to_agent_id = 'bob:2' WHERE event_type = 'note'",
    ),
    "an event without the name of its agent": Damage(
        "room_events", "do not belong together", "UPDATE room_events SET from_agent = NULL WHERE event_type = 'note'"
    ),
    "an event without an id": Damage(
        "room_events", "no event_id", "UPDATE room_events SET event_id = '' WHERE event_type = 'note'"
    ),
    "details of an event that are not an object": Damage(
        "room_events", "not a JSON object", "UPDATE room_events SET details_json = '0' WHERE event_type = 'leave'"
    ),
    "a member that joined at another time": Damage(
        "room_members", "joined_at of member", "UPDATE room_members SET joined_at = joined_at + 1"
    ),
    "an event of no room": Damage(
        "room_events", "does not exist", "UPDATE room_events SET room_id = 'room_x' WHERE event_type = 'note'"
    ),
}

BUS = {
    "a hole in the numbers": Damage(
        "messages", "The first missing seq is 2", f"DELETE FROM messages WHERE topic_id = {PINK} AND seq = 2"
    ),
    "a missing first message": Damage(
        "messages", "The first missing seq is 1", f"DELETE FROM messages WHERE topic_id = {PINK} AND seq = 1"
    ),
    "a missing last message": Damage(
        "topic_seq",
        "would number its next message",
        f"DELETE FROM messages WHERE topic_id = {PINK} AND seq = {LAST}",
    ),
    "a counter that is behind": Damage(
        "topic_seq", "would number its next message 1", f"UPDATE topic_seq SET next_seq = 1 WHERE topic_id = {PINK}"
    ),
    "a topic without a counter": Damage("topic_seq", "has no row", f"DELETE FROM topic_seq WHERE topic_id = {PINK}"),
    "an open topic with an end": Damage(
        "topics", "is open", "UPDATE topics SET close_reason = 'done' WHERE status = 'open'"
    ),
    "a topic without a name": Damage("topics", "has no name", "UPDATE topics SET name = '' WHERE name = 'pink'"),
    "a deleted topic": Damage("messages", "does not exist", "DELETE FROM topics WHERE name = 'pink'"),
    "a message of nobody": Damage(
        "messages", "has no sender", f"UPDATE messages SET sender_id = NULL WHERE topic_id = {PINK}"
    ),
    "a message of a peer that does not exist": Damage(
        "messages", "does not exist", f"UPDATE messages SET sender_id = 9999 WHERE topic_id = {PINK}"
    ),
    "a message of a stranger": Damage(
        "messages", "a peer of another topic", f"UPDATE messages SET sender_id = {HOME_PEER} WHERE topic_id = {PINK}"
    ),
    "a reply to nothing": Damage(
        "messages", "replies to msg_x", f"UPDATE messages SET reply_to = 'msg_x' WHERE message_id = {FIRST}"
    ),
    "a reply to another topic": Damage(
        "messages",
        "not a message of this topic",
        f"UPDATE messages SET reply_to = {FIRST} WHERE topic_id = {OPEN_HOME}",
    ),
    "a reply to the future": Damage(
        "messages", "which was sent later", f"UPDATE messages SET reply_to = message_id WHERE message_id = {FIRST}"
    ),
    "a message without a type": Damage(
        "messages", "or no type", f"UPDATE messages SET message_type = '' WHERE message_id = {FIRST}"
    ),
    "a message that is counted wrong": Damage(
        "messages", "counts as message 7 of its sender", f"UPDATE messages SET own_seq = 7 WHERE message_id = {FIRST}"
    ),
    "an addressee of no message": Damage(
        "message_addressees",
        "no such message",
        f"INSERT INTO message_addressees (addressee, topic_id, seq) VALUES ('bob', {PINK}, 9999)",
    ),
    "an addressee whom the message does not name": Damage(
        "message_addressees",
        "its metadata does not say so",
        "UPDATE message_addressees SET addressee = 'green'",
    ),
    "an addressee who gets no mail": Damage(
        "message_addressees", "missing from their mail", "DELETE FROM message_addressees"
    ),
    "messages in the wrong order": Damage(
        "messages", "in the wrong order", f"UPDATE messages SET number = number + 9999 WHERE message_id = {FIRST}"
    ),
    "metadata that is not an object": Damage(
        "messages", "not a JSON object", f"UPDATE messages SET metadata_json = '[1' WHERE message_id = {FIRST}"
    ),
    "a topic's metadata that is not an object": Damage(
        "topics", "not a JSON object", "UPDATE topics SET metadata_json = '3' WHERE name = 'pink'"
    ),
    "a name without letters": Damage(
        "agent_name_reservations",
        "an empty name",
        "UPDATE agent_name_reservations SET agent_name = ''"
        " WHERE agent_name = (SELECT min(agent_name) FROM agent_name_reservations)",
    ),
    "an own peer of no agent": Damage("peers", "own peer without an agent", "UPDATE peers SET agent_id = NULL"),
    "a peer that is neither": Damage("peers", "neither 0 nor 1", "UPDATE peers SET is_own = 2 WHERE is_own = 0"),
    "a peer of no agent that reads": Damage(
        "peers", "belongs to no agent", "UPDATE peers SET agent_id = NULL WHERE name = 'blue'"
    ),
    "a token that is none": Damage(
        "peers", "damaged token", "UPDATE peers SET reclaim_token_hash = 'x' WHERE name = 'blue'"
    ),
    "a peer that is there twice": Damage(
        "peers",
        "the same token",
        "INSERT INTO peers (peer_id, topic_id, name, agent_id, is_own, reclaim_token_hash, created_at, last_claimed_at)"
        " SELECT 9999, topic_id, name, agent_id, is_own, reclaim_token_hash, created_at, last_claimed_at FROM peers"
        " WHERE name = 'blue'",
    ),
    "two agents with each other's peers": Damage(
        "room_members",
        "on the room's topic it is called",
        f"UPDATE peers SET is_own = 2 WHERE topic_id = {OPEN_HOME} AND agent_id IN ('ada:1', 'bob:2');"
        "UPDATE peers SET agent_id = CASE agent_id WHEN 'ada:1' THEN 'bob:2' ELSE 'ada:1' END WHERE is_own = 2;"
        "UPDATE peers SET is_own = 1 WHERE is_own = 2",
    ),
    "a missing token": Damage("peers", "has none", "UPDATE peers SET reclaim_token_hash = NULL WHERE name = 'blue'"),
    "a peer without a name": Damage("peers", "has no name", f"UPDATE peers SET name = '' WHERE peer_id = {HOME_PEER}"),
    "a deleted peer": Damage("cursors", "does not exist", f"DELETE FROM peers WHERE peer_id = {HOME_PEER}"),
    "a deleted cursor": Damage("peers", "it has no cursor", f"DELETE FROM cursors WHERE peer_id = {HOME_PEER}"),
    "a name of another topic": Damage(
        "agent_name_reservations",
        "a peer of another topic",
        f"UPDATE agent_name_reservations SET peer_id = {HOME_PEER} WHERE topic_id = {PINK}",
    ),
    "a name of a peer that cannot read": Damage(
        "agent_name_reservations", "has no cursor", f"DELETE FROM cursors WHERE peer_id = {HOME_PEER}"
    ),
    "a deleted name": Damage(
        "agent_name_reservations",
        "does not mean this peer",
        f"DELETE FROM agent_name_reservations WHERE peer_id = {HOME_PEER}",
    ),
    "a cursor on another topic": Damage(
        "cursors", "not the topic of the peer", f"UPDATE cursors SET topic_id = {PINK} WHERE peer_id = {HOME_PEER}"
    ),
    "a cursor beyond the end": Damage(
        "cursors", "is at 99", f"UPDATE cursors SET last_seq = 99 WHERE peer_id = {HOME_PEER}"
    ),
    "a cursor before the beginning": Damage(
        "cursors", "is at -1", f"UPDATE cursors SET last_seq = -1 WHERE peer_id = {HOME_PEER}"
    ),
    "a cursor with impossible resets": Damage("cursors", "was reset -1 times", "UPDATE cursors SET resets = -1"),
}

QUESTIONS = {
    "a question without its message": Damage(
        "questions",
        "no message of type question",
        f"UPDATE messages SET message_type = 'message' WHERE message_id = {PENDING}",
    ),
    "a message without its question": Damage(
        "questions", "has no row in questions", f"DELETE FROM questions WHERE question_id = {PENDING}"
    ),
    "a question of another topic": Damage(
        "questions", "no message of type question", f"UPDATE questions SET topic_id = {OPEN_HOME}"
    ),
    "a question of a stranger": Damage(
        "questions", "asked by no peer", f"UPDATE questions SET asked_by_id = {HOME_PEER}"
    ),
    "a pending question with an end": Damage(
        "questions", "is pending", "UPDATE questions SET cancel_reason = 'why' WHERE status = 'pending'"
    ),
    "a question asked at another time": Damage("questions", "different times", "UPDATE questions SET asked_at = 1"),
    "an answer that is none": Damage("answers", "no message of type answer", f"UPDATE answers SET answer_id = {FIRST}"),
    "an answer of a stranger": Damage(
        "answers", "a peer of another topic", f"UPDATE answers SET answered_by_id = {HOME_PEER}"
    ),
    "an answer at another time": Damage("answers", "different times", "UPDATE answers SET answered_at = 1"),
    "an answer that is not counted": Damage("answers", "is counted", "DELETE FROM answers"),
    "an answer to no question": Damage("answers", "does not exist", "UPDATE answers SET question_id = 'msg_x'"),
}

SCOPES = {
    "an empty scope": Damage("reservations", "an empty scope", "UPDATE reservations SET given = ''"),
    "an overlap inside": Damage(
        "reservations",
        "overlap",
        f"UPDATE reservations SET scope = 'src/lib', scope_key = '/src/lib/' WHERE reservation_id = {HELD}",
    ),
    "an overlap of everything": Damage(
        "reservations", "overlap", f"UPDATE reservations SET scope = '.', scope_key = '/' WHERE reservation_id = {HELD}"
    ),
    "an overlap that was released": Damage(
        "reservations",
        "overlap",
        f"UPDATE reservations SET state = 'active', ended_at = NULL WHERE reservation_id = {GONE}",
    ),
    "a key of another scope": Damage(
        "reservations",
        "is not a key for",
        f"UPDATE reservations SET scope_key = '/a/b/c/' WHERE reservation_id = {HELD}",
    ),
    "a key without slashes": Damage(
        "reservations", "is not a key for", f"UPDATE reservations SET scope_key = 'docs' WHERE reservation_id = {HELD}"
    ),
    "a reservation of a stranger": Damage(
        "reservations", "not a member", "DELETE FROM room_members WHERE agent_id = 'bob:2'"
    ),
    "a reservation that ends before it begins": Damage(
        "reservations", "expires before", "UPDATE reservations SET expires_at = created_at"
    ),
    "a reservation that nobody made": Damage(
        "room_activity", "was made", "DELETE FROM room_activity WHERE kind = 'reserved'"
    ),
    "a release that nobody made": Damage(
        "reservations", "room_activity says otherwise", "DELETE FROM room_activity WHERE kind = 'released'"
    ),
    "a reservation that did not end": Damage(
        "reservations",
        "room_activity says otherwise",
        f"UPDATE reservations SET state = 'released', ended_at = 5 WHERE reservation_id = {HELD}",
    ),
    "a scope of another key": Damage(
        "reservations",
        "is not a key for pearls",
        f"UPDATE reservations SET scope = 'pearls' WHERE reservation_id = {HELD}",
    ),
    "another scope": Damage(
        "reservations",
        "has another scope",
        f"UPDATE reservations SET scope = 'pearls', scope_key = '/pearls/' WHERE reservation_id = {HELD}",
    ),
    "a reservation that holds longer": Damage(
        "reservations", "until another time", "UPDATE reservations SET expires_at = expires_at + 1"
    ),
    "a reservation of another agent": Damage(
        "reservations", "by another agent", f"UPDATE reservations SET agent_id = 'ada:1' WHERE reservation_id = {HELD}"
    ),
    "a reservation made at another time": Damage(
        "reservations", "at another time", "UPDATE reservations SET created_at = created_at - 1"
    ),
    "a reservation that ended at another time": Damage(
        "reservations", "room_activity says otherwise", "UPDATE reservations SET ended_at = ended_at + 1"
    ),
    "a reservation in no room": Damage("reservations", "does not exist", "UPDATE reservations SET room_id = 'room_x'"),
}

NOTICES = {
    "a handoff that is counted": Damage(
        "protocol_events",
        "but has a cause",
        "UPDATE protocol_events SET caused_by = 'bob:2' WHERE handoff_event_seq IS NOT NULL",
    ),
    "a notice that never came": Damage("protocol_events", "came 0 times", "UPDATE protocol_events SET times = 0"),
    "a notice that came again at no time": Damage(
        "protocol_events", "latest_at says otherwise", "UPDATE protocol_events SET times = 2"
    ),
    "a notice that did not come again": Damage(
        "protocol_events", "latest_at says otherwise", "UPDATE protocol_events SET latest_at = created_at"
    ),
    "an urgent notice that comes last": Damage(
        "protocol_events", "its payload contradicts", "UPDATE protocol_events SET priority = 2 WHERE priority = 0"
    ),
    "a notice that became urgent": Damage(
        "protocol_events", "its payload contradicts", "UPDATE protocol_events SET priority = 0"
    ),
    "a payload of another type": Damage(
        "protocol_events",
        "its payload contradicts",
        f'UPDATE protocol_events SET payload_json = \'{{"urgency": "high"}}\' WHERE event_id = {BLOCKED}',
    ),
    "a notice of another cause": Damage(
        "protocol_events",
        "another sender, cause",
        "UPDATE protocol_events SET caused_by = 'eve:3' WHERE caused_by = 'bob:2'",
    ),
    "a notice from another agent": Damage(
        "protocol_events",
        "another sender, cause",
        f"UPDATE protocol_events SET from_agent_id = 'eve:3' WHERE event_id = {BLOCKED}",
    ),
    "a notice sent at another time": Damage(
        "protocol_events", "cause or time", f"UPDATE protocol_events SET created_at = 5 WHERE event_id = {BLOCKED}"
    ),
    "a handoff told by another agent": Damage(
        "protocol_events",
        "differs from event",
        "UPDATE protocol_events SET from_agent_id = 'eve:3' WHERE handoff_event_seq IS NOT NULL",
    ),
    "a notice accepted at another time": Damage(
        "room_activity", "does not say when", "UPDATE protocol_events SET accepted_at = accepted_at + 1"
    ),
    "a notice that nobody accepted": Damage(
        "room_activity", "does not say when", "DELETE FROM room_activity WHERE kind = 'accepted'"
    ),
    "an activity about something else": Damage(
        "room_activity", "does not exist in this room", "UPDATE room_activity SET kind = 'seen' WHERE kind = 'reserved'"
    ),
    "an activity about nothing at all": Damage(
        "room_activity", "does not exist in this room", "UPDATE room_activity SET subject_id = NULL"
    ),
    "an activity without a name": Damage("room_activity", "has no name", "UPDATE room_activity SET agent_name = NULL"),
    "a notice to another agent": Damage(
        "protocol_events",
        "is to eve:3, but room_activity says",
        f"UPDATE protocol_events SET to_agent_id = 'eve:3' WHERE event_id = {BLOCKED}",
    ),
    "a notice to nobody": Damage(
        "protocol_events",
        "does not exist",
        f"UPDATE protocol_events SET to_agent_id = 'x:1' WHERE event_id = {BLOCKED}",
    ),
    "a notice of nobody": Damage(
        "protocol_events",
        "does not exist",
        f"UPDATE protocol_events SET from_agent_id = 'x:1' WHERE event_id = {BLOCKED}",
    ),
    "a notice without a recipient": Damage(
        "protocol_events",
        "lacks its recipient",
        f"UPDATE protocol_events SET to_agent_id = NULL, to_agent = NULL WHERE event_id = {BLOCKED}",
    ),
    "a seen notice that nobody saw": Damage(
        "protocol_events", "say otherwise", f"UPDATE protocol_events SET state = 'seen' WHERE event_id = {BLOCKED}"
    ),
    "an accepted notice without a time": Damage(
        "protocol_events", "say otherwise", "UPDATE protocol_events SET accepted_at = NULL WHERE state = 'accepted'"
    ),
    "a notice of no handoff": Damage(
        "protocol_events",
        "not a handoff of this room",
        "UPDATE protocol_events SET handoff_event_seq = 9999 WHERE handoff_event_seq ="
        " (SELECT max(handoff_event_seq) FROM protocol_events)",
    ),
    "a handoff without its notice": Damage(
        "protocol_events",
        "its notice is missing",
        "DELETE FROM protocol_events WHERE handoff_event_seq = (SELECT max(handoff_event_seq) FROM protocol_events)",
    ),
    "a handoff that another agent accepted": Damage(
        "protocol_events",
        "does not say that eve:3 did so",
        "UPDATE protocol_events SET to_agent_id = 'eve:3' WHERE handoff_event_seq ="
        " (SELECT min(handoff_event_seq) FROM protocol_events)",
    ),
    "an activity that is there twice": Damage(
        "room_activity",
        "says a second time",
        "INSERT INTO room_activity (room_id, kind, agent_id, agent_name, subject_id, details_json, created_at)"
        " SELECT room_id, kind, agent_id, agent_name, subject_id, details_json, created_at FROM room_activity"
        " WHERE kind = 'released'",
    ),
    "a payload that is not JSON": Damage(
        "protocol_events", "not a JSON object", "UPDATE protocol_events SET payload_json = 'no'"
    ),
    "a notice that nobody sent": Damage(
        "room_activity", "was sent", "DELETE FROM room_activity WHERE kind = 'BLOCKED'"
    ),
    "an activity about nothing": Damage(
        "room_activity", "does not exist in this room", f"DELETE FROM protocol_events WHERE event_id = {BLOCKED}"
    ),
    "an activity of nobody": Damage("room_activity", "does not exist", "UPDATE room_activity SET agent_id = 'x:1'"),
    "an activity of an unknown kind": Damage(
        "room_activity", "unknown kind, dance", "UPDATE room_activity SET kind = 'dance' WHERE kind = 'registered'"
    ),
    "details that are not an object": Damage(
        "room_activity", "not a JSON object", "UPDATE room_activity SET details_json = '7'"
    ),
    "an activity in no room": Damage("room_activity", "does not exist", "UPDATE room_activity SET room_id = 'room_x'"),
}

SEARCH = {
    "an index beyond the end": Damage(
        "index_progress", "claims 99 messages", "UPDATE index_progress SET through_seq = 99"
    ),
    "an index of no topic": Damage(
        "index_progress", "claims 1 messages", "INSERT INTO index_progress VALUES ('words', 'topic_x', 1)"
    ),
    "an unknown index": Damage(
        "index_progress", "unknown part, smell", f"INSERT INTO index_progress VALUES ('smell', {PINK}, 0)"
    ),
    "a message missing from the index": Damage(
        "index_words",
        "lacks message",
        "DELETE FROM index_words_docsize WHERE id = (SELECT min(id) FROM index_words_docsize)",
        SQLITE,
    ),
    "a message missing from the server's index": Damage(
        "index_words",
        "lacks message",
        "DELETE FROM index_words WHERE number = (SELECT min(number) FROM index_words)",
        POSTGRES,
    ),
    "an index without its progress": Damage("index_words", "is not indexed", "DELETE FROM index_progress"),
    "an index without its words": Damage(
        "index_words", "search index", "DELETE FROM index_words_data WHERE id > 100", SQLITE
    ),
    "an index without its structure": Damage(
        "index_words", "search index", "DELETE FROM index_words_data WHERE id = 10", SQLITE
    ),
    "an index without its directory": Damage(
        "index_words", "contradict each other", "DELETE FROM index_words_idx", SQLITE
    ),
    "a directory that leads elsewhere": Damage(
        "index_words", "search index", "UPDATE index_words_idx SET pgno = pgno + 8", SQLITE
    ),
    "an index of another format": Damage(
        "index_words", "cannot be read", "UPDATE index_words_config SET v = 9", SQLITE
    ),
    "an index without totals": Damage(
        "index_words", "search index", "DELETE FROM index_words_data WHERE id = 1", SQLITE
    ),
    "messages with more words": Damage(
        "index_words", "its messages have", "UPDATE index_words_docsize SET sz = x'63'", SQLITE
    ),
    "a missing vector": Damage(
        "index_vectors", "lacks message", f"INSERT INTO index_progress VALUES ('vectors:m', {PINK}, 1)"
    ),
    "a vector of no message": Damage(
        "index_vectors", "is not indexed", "INSERT INTO index_vectors VALUES ('m', 9999, CAST('x' AS $bytes))"
    ),
    "vectors of two lengths": Damage(
        "index_vectors",
        "differ in length",
        "INSERT INTO index_vectors VALUES ('m', 1, CAST('x' AS $bytes)), ('m', 2, CAST('xy' AS $bytes))",
    ),
}

SCHEMA = {
    "a dropped table": Damage("answers", "The table answers is missing", "DROP TABLE answers"),
    "a dropped table of the log": Damage("room_events", "could not be replayed", "DROP TABLE room_events"),
    "a table that is not ours": Damage("pearls", "not part of conch's schema", "CREATE TABLE pearls (id INTEGER)"),
    "a view that is not ours": Damage("view pearls", "not part", "CREATE VIEW pearls AS SELECT 1 AS one", POSTGRES),
    "a dropped column": Damage("topics", "column close_reason", "ALTER TABLE topics DROP COLUMN close_reason"),
    "a column that is not ours": Damage("topics", "column pearls", "ALTER TABLE topics ADD COLUMN pearls TEXT"),
    "a dropped unique index": Damage("messages", "index messages_topic_seq_idx", "DROP INDEX messages_topic_seq_idx"),
    "a dropped index": Damage("peers", "index peers_name_idx", "DROP INDEX peers_name_idx"),
    "an index that is not unique": Damage(
        "messages",
        "was changed",
        "DROP INDEX messages_topic_seq_idx; CREATE INDEX messages_topic_seq_idx ON messages (topic_id, seq)",
    ),
    "an index of fewer rows": Damage(
        "peers",
        "was changed",
        "DROP INDEX peers_own_idx; CREATE UNIQUE INDEX peers_own_idx ON peers (agent_id, topic_id) WHERE is_own = 2",
    ),
    "an index that is not ours": Damage("messages", "not part of", "CREATE UNIQUE INDEX pearls ON messages (number)"),
    "a trigger that is not ours": Damage(
        "topics",
        "trigger pearls",
        "CREATE TRIGGER pearls AFTER INSERT ON topics BEGIN DELETE FROM topics WHERE name = 'x'; END",
        SQLITE,
    ),
    "a dropped check": Damage(
        "reservations",
        "was changed",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'CHECK (state IN (''active'', "
        "''released'', ''expired'')),', '') WHERE name = 'reservations'",
        SQLITE,
    ),
    "a dropped foreign key": Damage(
        "reservations",
        "was changed",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'REFERENCES agents (agent_id)', '')"
        " WHERE name = 'reservations'",
        SQLITE,
    ),
    "another type": Damage(
        "cursors",
        "column last_seq",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'last_seq BIGINT', 'last_seq TEXT')"
        " WHERE name = 'cursors'",
        SQLITE,
    ),
    "a check dropped on the server": Damage(
        "reservations",
        "constraint CHECK",
        "ALTER TABLE reservations DROP CONSTRAINT reservations_check",
        POSTGRES,
    ),
    "a foreign key dropped on the server": Damage(
        "cursors", "constraint FOREIGN KEY", "ALTER TABLE cursors DROP CONSTRAINT cursors_topic_id_fkey1", POSTGRES
    ),
    "a key dropped on the server": Damage(
        "agents", "constraint UNIQUE", "ALTER TABLE agents DROP CONSTRAINT agents_name_key", POSTGRES
    ),
    "another type on the server": Damage(
        "cursors", "column last_seq", "ALTER TABLE cursors ALTER COLUMN last_seq TYPE INTEGER", POSTGRES
    ),
    "another default on the server": Damage(
        "cursors", "column last_seq", "ALTER TABLE cursors ALTER COLUMN last_seq SET DEFAULT 7", POSTGRES
    ),
    "a column that may be empty": Damage(
        "cursors", "column last_seq", "ALTER TABLE cursors ALTER COLUMN last_seq DROP NOT NULL", POSTGRES
    ),
    "another collation": Damage(
        "reservations", "column scope_key", "ALTER TABLE reservations ALTER COLUMN scope_key TYPE TEXT", POSTGRES
    ),
    "no more identity": Damage(
        "messages", "column number", "ALTER TABLE messages ALTER COLUMN number DROP IDENTITY", POSTGRES
    ),
    "disabled foreign keys": Damage(
        "messages", "disabled foreign keys", "ALTER TABLE messages DISABLE TRIGGER ALL", POSTGRES
    ),
    "rows of another table": Damage(
        "messages", "rows of other tables", "CREATE TABLE public.more () INHERITS (messages)", POSTGRES
    ),
    "a foreign key from outside": Damage(
        "agents",
        "foreign keys of other schemas",
        "CREATE TABLE public.more (agent_id TEXT REFERENCES agents (agent_id))",
        POSTGRES,
    ),
    "rows that are hidden": Damage(
        "messages", "row security", "ALTER TABLE messages ENABLE ROW LEVEL SECURITY", POSTGRES
    ),
    "a table that a crash empties": Damage("index_words", "UNLOGGED", "ALTER TABLE index_words SET UNLOGGED", POSTGRES),
    "a trigger on the server": Damage(
        "topics",
        "trigger pearls",
        "CREATE TRIGGER pearls BEFORE UPDATE ON topics FOR EACH ROW"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        POSTGRES,
    ),
    "a rule on the server": Damage(
        "messages", "rule pearls", "CREATE RULE pearls AS ON DELETE TO messages DO INSTEAD NOTHING", POSTGRES
    ),
    "a numbering that goes backwards": Damage(
        "messages", "numbering number", "ALTER TABLE messages ALTER COLUMN number SET INCREMENT BY -1", POSTGRES
    ),
    "a function on the server": Damage(
        "conch", "function pearls", "CREATE FUNCTION pearls() RETURNS int LANGUAGE sql AS 'SELECT 1'", POSTGRES
    ),
    "a dropped default": Damage(
        "cursors", "column resets", "ALTER TABLE cursors ALTER COLUMN resets DROP DEFAULT", POSTGRES
    ),
    "a constraint that does not hold for old rows": Damage(
        "questions",
        "constraint",
        "ALTER TABLE questions DROP CONSTRAINT questions_topic_id_fkey;"
        " ALTER TABLE questions ADD CONSTRAINT questions_topic_id_fkey FOREIGN KEY (topic_id) REFERENCES topics"
        " NOT VALID",
        POSTGRES,
    ),
    "another collation of SQLite": Damage(
        "topics",
        "was changed",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'name TEXT NOT NULL',"
        " 'name TEXT COLLATE NOCASE NOT NULL') WHERE name = 'topics'",
        SQLITE,
    ),
    "numbers that would be given twice": Damage(
        "messages", "The numbering of messages is at 1", "SELECT setval('messages_number_seq', 1)", POSTGRES
    ),
}

DAMAGES = META | TYPES | AGENTS | ROOMS | LOG | BUS | QUESTIONS | SCOPES | NOTICES | SEARCH | SCHEMA

# Rows of the tables that the filled store does not use.
EVERY_TABLE = """
INSERT INTO agent_signals VALUES ('session:x', 'ada:1', 7);
INSERT INTO connections VALUES ('connection:h:b:7:9', 'ada:1', 'p', 'x', 'h', 'b', 7, 9, 4, 5);
INSERT INTO index_vectors SELECT 'm', number, x'00' FROM messages;
INSERT INTO index_progress SELECT 'vectors:m', topic_id, next_seq - 1 FROM topic_seq WHERE next_seq > 1;
INSERT INTO marks SELECT 'ada:1', 'to_you', topic_id, next_seq - 1, 7 FROM topic_seq WHERE next_seq > 1;
INSERT INTO marks SELECT 'ada:1', 'all', topic_id, next_seq - 1, 7 FROM topic_seq WHERE next_seq > 1;
INSERT INTO marks SELECT 'ada:1', 'takeover', room_id, turn_id, 7 FROM path_rooms;
INSERT INTO listeners VALUES ('ada:1', 'listener', 'h', 'b', 7, 9, 4, 5);
INSERT INTO room_checkpoints SELECT room_id, 0, '{"room": {"owner": null, "reserved_for": null, "turn_id": 0,
  "pending_handoff_event_seq": null, "state": "idle", "sequence_index": 0, "policy_json": "{}", "last_event_seq": 0},
  "members": {}}', 7 FROM path_rooms;
"""

# Columns whose values nothing else in the store determines, so `verify` cannot find a wrong one of the same kind.
UNTOLD = {
    "agent_signals": "signal linked_at",
    "agents": "harness created_at last_seen_at",
    "connections": "parent client_name closed_at",
    "cursors": "resets updated_at",
    "listeners": "listener_id host_id boot_id pid process_started_at expires_at",
    "marks": "updated_at",
    "messages": "message_id message_type content_markdown client_message_id created_at",
    "path_rooms": "lease_id lease_expires_at updated_at",
    "peers": "created_at last_claimed_at",
    "protocol_events": "bead_id scope shown_at to_agent",
    "questions": "cancel_reason",
    "registrations": "role",
    "reservations": "bead_id",
    "room_activity": "agent_name",
    "room_checkpoints": "created_at",
    "room_events": "event_id from_agent to_agent reason created_at",
    "room_members": "display_name",
    "topic_seq": "updated_at",
    "topics": "created_at",
}
