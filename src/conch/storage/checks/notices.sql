-- check: protocol_events
-- Notice {event_id} of room {room_id} is from or to {agent_id}, an agent that does not exist.
SELECT e.event_id, e.room_id, e.from_agent_id AS agent_id
FROM protocol_events e LEFT JOIN agents a ON a.agent_id = e.from_agent_id
WHERE e.from_agent_id IS NOT NULL AND a.agent_id IS NULL
UNION ALL
SELECT e.event_id, e.room_id, e.to_agent_id
FROM protocol_events e LEFT JOIN agents a ON a.agent_id = e.to_agent_id
WHERE e.to_agent_id IS NOT NULL AND a.agent_id IS NULL;

-- check: protocol_events
-- Notice {event_id} of room {room_id} is a {event_type} and lacks its recipient, its sender or a name.
SELECT event_id, room_id, event_type FROM protocol_events
WHERE (event_type IN ('BLOCKED', 'INCURSION') AND to_agent_id IS NULL)
  OR (event_type = 'BLOCKED' AND from_agent_id IS NULL)
  OR (to_agent_id IS NULL) <> (to_agent IS NULL)
  OR (from_agent_id IS NULL) <> (from_agent IS NULL);

-- check: protocol_events
-- Notice {event_id} is {state}, but its seen_at and accepted_at say otherwise.
SELECT event_id, state, seen_at, accepted_at FROM protocol_events
WHERE (state = 'unread') <> (seen_at IS NULL) OR (state = 'accepted') <> (accepted_at IS NOT NULL);

-- check: room_activity
-- Notice {event_id} of room {room_id} is {state}, but room_activity does not say when it was seen or accepted.
SELECT e.event_id, e.room_id, e.state, e.seen_at, e.accepted_at
FROM protocol_events e
LEFT JOIN room_activity s ON s.subject_id = e.event_id AND s.room_id = e.room_id AND s.created_at = e.seen_at
  AND s.kind IN ('seen', 'accepted')
LEFT JOIN room_activity a ON a.subject_id = e.event_id AND a.room_id = e.room_id AND a.created_at = e.accepted_at
  AND a.kind = 'accepted'
WHERE (e.seen_at IS NOT NULL AND s.number IS NULL) OR (e.accepted_at IS NOT NULL AND a.number IS NULL);

-- check: protocol_events
-- Notice {event_id} of room {room_id} belongs to event {handoff_event_seq}, which is not a handoff of this room.
SELECT n.event_id, n.room_id, n.handoff_event_seq
FROM protocol_events n LEFT JOIN room_events e
  ON e.event_seq = n.handoff_event_seq AND e.room_id = n.room_id AND e.event_type IN ('release', 'pass')
LEFT JOIN room_checkpoints k ON k.room_id = n.room_id AND k.event_seq >= n.handoff_event_seq
WHERE n.handoff_event_seq IS NOT NULL AND ((e.event_seq IS NULL AND k.room_id IS NULL) OR n.event_type <> 'HANDOFF');

-- Handoffs from before the first notice were written by a version that had no notices.

-- check: protocol_events
-- Event {event_seq} of room {room_id} handed over the stick, but its notice is missing.
SELECT e.event_seq, e.room_id
FROM room_events e LEFT JOIN protocol_events n ON n.handoff_event_seq = e.event_seq
WHERE e.event_type IN ('release', 'pass') AND n.event_id IS NULL
  AND e.event_seq > (SELECT min(handoff_event_seq) FROM protocol_events);

-- check: protocol_events
-- Notice {event_id} of room {room_id} differs from event {handoff_event_seq}, the handoff that it is about.
SELECT n.event_id, n.room_id, n.handoff_event_seq
FROM protocol_events n JOIN room_events e ON e.event_seq = n.handoff_event_seq
WHERE n.created_at <> e.created_at OR n.from_agent_id <> e.from_agent_id OR n.from_agent <> e.from_agent;

-- check: protocol_events
-- Notice {event_id} of room {room_id} has another sender, cause or time than room_activity says.
SELECT e.event_id, e.room_id, e.from_agent_id, e.caused_by, e.created_at
FROM protocol_events e JOIN room_activity t
  ON t.subject_id = e.event_id AND t.room_id = e.room_id AND t.kind = e.event_type
WHERE e.handoff_event_seq IS NULL AND (
  t.created_at <> e.created_at OR e.from_agent_id <> t.agent_id OR e.from_agent <> t.agent_name
  OR e.caused_by <> t.agent_id
);

-- A notice that is not about a handoff keeps its recipient, unless an adoption gives it to the heir.

-- check: protocol_events recipient
-- Notice {event_id} of room {room_id} is to {to_agent_id}, but room_activity says that it was sent to another agent.
SELECT e.event_id, e.room_id, e.to_agent_id, t.details_json
FROM protocol_events e JOIN room_activity t
  ON t.subject_id = e.event_id AND t.room_id = e.room_id AND t.kind = e.event_type
LEFT JOIN room_activity heir ON heir.room_id = e.room_id AND heir.kind = 'RESUME' AND heir.agent_id = e.to_agent_id
WHERE e.handoff_event_seq IS NULL AND e.to_agent_id IS NOT NULL AND heir.number IS NULL;

-- A notice of a handoff goes to the agent that the stick was offered to, then to the one that claimed it. A declined
-- offer moves it to the next one, and an adoption to the heir.

-- check: protocol_events
-- Notice {event_id} of room {room_id} is to {to_agent_id}, but the stick was offered to {offered_to}.
SELECT n.event_id, n.room_id, n.to_agent_id, e.to_agent_id AS offered_to
FROM protocol_events n JOIN room_events e ON e.event_seq = n.handoff_event_seq
LEFT JOIN room_activity heir
  ON heir.room_id = n.room_id AND heir.kind = 'RESUME' AND heir.agent_id = n.to_agent_id
LEFT JOIN room_events again
  ON again.room_id = n.room_id AND again.event_seq > n.handoff_event_seq AND again.event_type = 'decline'
  AND again.to_agent_id = n.to_agent_id
WHERE n.state <> 'accepted' AND n.to_agent_id <> COALESCE(e.to_agent_id, '') AND heir.number IS NULL
  AND again.event_seq IS NULL;

-- check: protocol_events
-- Notice {event_id} of room {room_id} is accepted, but room_activity does not say that {to_agent_id} did so.
SELECT e.event_id, e.room_id, e.to_agent_id
FROM protocol_events e LEFT JOIN room_activity t
  ON t.subject_id = e.event_id AND t.room_id = e.room_id AND t.kind = 'accepted' AND t.created_at = e.accepted_at
  AND t.agent_id = e.to_agent_id
WHERE e.state = 'accepted' AND e.to_agent_id IS NOT NULL AND t.number IS NULL;

-- check: protocol_events json
-- The payload of notice {event_id} is not a JSON object.
SELECT event_id, payload_json AS json FROM protocol_events;

-- check: protocol_events notice
-- Notice {event_id} of room {room_id} is a {event_type} with priority {priority}, which its payload contradicts.
SELECT event_id, room_id, event_type, priority, payload_json FROM protocol_events;

-- check: room_activity
-- Nothing in room_activity says that the notice {event_id} of room {room_id} was sent.
SELECT e.event_id, e.room_id
FROM protocol_events e LEFT JOIN room_activity t
  ON t.subject_id = e.event_id AND t.room_id = e.room_id AND t.kind = e.event_type
WHERE e.handoff_event_seq IS NULL AND t.number IS NULL;

-- check: room_activity
-- Activity {number} of room {room_id}, {kind}, is about {subject_id}, which does not exist in this room.
SELECT t.number, t.room_id, t.kind, t.subject_id
FROM room_activity t
LEFT JOIN reservations r ON r.reservation_id = t.subject_id AND r.room_id = t.room_id
LEFT JOIN protocol_events e ON e.event_id = t.subject_id AND e.room_id = t.room_id
WHERE CASE
  WHEN t.kind = 'registered' THEN t.subject_id IS NOT NULL
  WHEN t.kind = 'wake' THEN t.subject_id IS NULL
  WHEN t.kind IN ('reserved', 'renewed', 'released', 'expired') THEN r.reservation_id IS NULL
  WHEN t.kind IN ('seen', 'accepted') THEN e.event_id IS NULL
  ELSE e.event_id IS NULL OR e.event_type <> t.kind
END;

-- check: room_activity
-- Activity {number} of room {room_id} says a second time that {subject_id} was {kind}.
SELECT max(number) AS number, room_id, subject_id, kind FROM room_activity
WHERE subject_id IS NOT NULL AND kind NOT IN ('renewed', 'seen', 'accepted', 'wake')
GROUP BY room_id, subject_id, kind HAVING count(*) > 1;

-- check: room_activity
-- Activity {number} of room {room_id} is by {agent_id}, an agent that does not exist or has no name.
SELECT t.number, t.room_id, t.agent_id
FROM room_activity t LEFT JOIN agents a ON a.agent_id = t.agent_id
WHERE a.agent_id IS NULL OR COALESCE(t.agent_name, '') = '';

-- check: room_activity
-- Activity {number} of room {room_id} is of an unknown kind, {kind}.
SELECT number, room_id, kind FROM room_activity
WHERE kind NOT IN (
  'registered', 'reserved', 'renewed', 'released', 'expired', 'HANDOFF', 'BLOCKED', 'INCURSION', 'RESUME', 'seen',
  'accepted', 'wake'
);

-- check: room_activity json
-- The details of activity {number} of room {room_id} are not a JSON object.
SELECT number, room_id, details_json AS json FROM room_activity WHERE details_json IS NOT NULL;

-- check: protocol_events
-- Notice {event_id} of room {room_id} came {times} times, but its latest_at says otherwise.
SELECT event_id, room_id, times, latest_at FROM protocol_events
WHERE times < 1 OR (times = 1) <> (latest_at IS NULL) OR (times > 1 AND caused_by IS NULL);

-- check: protocol_events
-- Notice {event_id} of room {room_id} is about a handoff, but has a cause, {caused_by}. Handoffs are not counted.
SELECT event_id, room_id, caused_by FROM protocol_events
WHERE handoff_event_seq IS NOT NULL AND caused_by IS NOT NULL;
