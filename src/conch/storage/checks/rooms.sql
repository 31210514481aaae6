-- What must hold for a room beside its log. `rooms/verify.py` replays the log.

-- check: path_rooms
-- Room {room_id} must have a lease_expires_at exactly while it has an owner.
SELECT room_id, owner, lease_expires_at FROM path_rooms WHERE (owner IS NULL) <> (lease_expires_at IS NULL);

-- check: path_rooms
-- Room {room_id} must have a claim_expires_at exactly while it is reserved.
SELECT room_id, reserved_for, claim_expires_at FROM path_rooms
WHERE (reserved_for IS NULL) <> (claim_expires_at IS NULL);

-- check: path_rooms
-- {agent_id} holds the stick of room {room_id}, or is next, but is not a member of the room.
SELECT r.room_id, COALESCE(r.owner, r.reserved_for) AS agent_id
FROM path_rooms r
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = COALESCE(r.owner, r.reserved_for)
WHERE COALESCE(r.owner, r.reserved_for) IS NOT NULL AND m.agent_id IS NULL;

-- check: path_rooms
-- The pending handoff of room {room_id}, event {event_seq}, is not a handoff of this room.
SELECT r.room_id, r.pending_handoff_event_seq AS event_seq
FROM path_rooms r LEFT JOIN room_events e
  ON e.event_seq = r.pending_handoff_event_seq AND e.room_id = r.room_id
  AND e.event_type IN ('release', 'pass') AND e.handoff_json IS NOT NULL
WHERE r.pending_handoff_event_seq IS NOT NULL AND e.event_seq IS NULL;

-- check: path_rooms
-- The home topic {topic_id} of room {room_id} does not exist, or is the topic of another path.
SELECT r.room_id, r.topic_id
FROM path_rooms r LEFT JOIN topics t
  ON t.topic_id = r.topic_id AND t.mode = 'home' AND t.name = r.canonical_path
WHERE t.topic_id IS NULL;

-- check: topics
-- The home topic {topic_id} is {status}, but its room {room_id} is {state}.
SELECT t.topic_id, t.status, r.room_id, r.state
FROM path_rooms r JOIN topics t ON t.topic_id = r.topic_id
WHERE (t.status = 'closed') <> (r.state = 'closed');

-- check: topics
-- The home topic {topic_id} and its room {room_id} were created at different times.
SELECT t.topic_id, t.created_at, r.room_id
FROM path_rooms r JOIN topics t ON t.topic_id = r.topic_id WHERE t.created_at <> r.created_at;

-- check: topics
-- The home topic {topic_id} and its room {room_id} were closed at different times or for different reasons.
SELECT t.topic_id, t.closed_at, t.close_reason, r.room_id
FROM path_rooms r JOIN topics t ON t.topic_id = r.topic_id
JOIN room_events e ON e.event_seq = r.last_event_seq AND e.event_type = 'close'
WHERE t.closed_at <> e.created_at OR COALESCE(t.close_reason, '') <> COALESCE(e.reason, '');

-- check: topics
-- The home topic {topic_id} belongs to no room.
SELECT t.topic_id FROM topics t LEFT JOIN path_rooms r ON r.topic_id = t.topic_id
WHERE t.mode = 'home' AND r.room_id IS NULL;

-- check: room_members
-- Two members of room {room_id}, one of them {agent_id}, have the same place, {ordinal}, in its sequence.
SELECT room_id, min(agent_id) AS agent_id, ordinal FROM room_members GROUP BY room_id, ordinal HAVING count(*) > 1;

-- check: room_members
-- The member {agent_id} of room {room_id} has no name.
SELECT room_id, agent_id FROM room_members WHERE name = '';

-- check: room_events
-- Event {event_seq} of room {room_id} is from or to {agent_id}, an agent that does not exist.
SELECT e.event_seq, e.room_id, e.from_agent_id AS agent_id
FROM room_events e LEFT JOIN agents a ON a.agent_id = e.from_agent_id
WHERE e.from_agent_id IS NOT NULL AND a.agent_id IS NULL
UNION ALL
SELECT e.event_seq, e.room_id, e.to_agent_id
FROM room_events e LEFT JOIN agents a ON a.agent_id = e.to_agent_id
WHERE e.to_agent_id IS NOT NULL AND a.agent_id IS NULL;

-- check: path_rooms json
-- The policy of room {room_id} is not a JSON object.
SELECT room_id, policy_json AS json FROM path_rooms WHERE policy_json <> '{}';

-- check: path_rooms
-- Room {room_id} is owned by {owner} with an empty lease_id.
SELECT room_id, owner FROM path_rooms WHERE lease_id = '';

-- A claim is from the agent that wrote the handoff, which may have left the room since, and then has no name there.

-- check: room_events
-- Event {event_seq} of room {room_id} has no event_id, or its agents and their names do not belong together.
SELECT event_seq, room_id FROM room_events
WHERE event_id = '' OR from_agent = '' OR to_agent = '' OR (to_agent_id IS NULL) <> (to_agent IS NULL)
  OR (from_agent_id IS NULL AND from_agent IS NOT NULL)
  OR (from_agent_id IS NOT NULL AND from_agent IS NULL AND event_type <> 'claim');

-- check: room_events json
-- The details of event {event_seq} of room {room_id} are not a JSON object.
SELECT event_seq, room_id, details_json AS json FROM room_events WHERE details_json IS NOT NULL;

-- check: room_events json
-- The handoff of event {event_seq} of room {room_id} is not a JSON object.
SELECT event_seq, room_id, handoff_json AS json FROM room_events WHERE handoff_json IS NOT NULL;

-- A member keeps its name in the room when another peer gets that name on the topic, with a token or after an operator
-- freed it. The member then has a second name on the topic.

-- check: room_members
-- The member {agent_id} of room {room_id} is called {name}, but on the room's topic it is called {peer_name}.
SELECT m.room_id, m.agent_id, m.name, p.name AS peer_name
FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
JOIN peers p ON p.topic_id = r.topic_id AND p.agent_id = m.agent_id AND p.is_own = 1
WHERE p.name <> m.name AND NOT EXISTS (
  SELECT 1 FROM peers other WHERE other.name = m.name AND other.topic_id = r.topic_id AND other.is_own = 0
);

-- check: room_events
-- Event {event_seq} of room {room_id} is there, but the events up to {pruned} were pruned.
SELECT e.room_id, min(e.event_seq) AS event_seq, k.event_seq AS pruned
FROM room_checkpoints k JOIN room_events e ON e.room_id = k.room_id AND e.event_seq <= k.event_seq
GROUP BY e.room_id, k.event_seq;

-- check: room_checkpoints json
-- The checkpoint of room {room_id} is not a JSON object.
SELECT room_id, replay_json AS json FROM room_checkpoints;

-- check: room_members
-- The member {agent_id} of room {room_id} has waited since {waiting_since} and was seen waiting at {waited_at}.
SELECT room_id, agent_id, waiting_since, waited_at FROM room_members
WHERE (waiting_since IS NULL) <> (waited_at IS NULL) OR waited_at < waiting_since;
