-- name: append_event
INSERT INTO room_events
  (event_seq, event_id, room_id, turn_id, event_type, from_agent_id, from_agent, to_agent_id, to_agent, handoff_json, reason,
   details_json, created_at, previous_seq)
VALUES
  (:event_seq, :event_id, :room_id, :turn_id, :event_type,
   :from_agent_id, (SELECT name FROM room_members WHERE room_id = :room_id AND agent_id = :from_agent_id),
   :to_agent_id, (SELECT name FROM room_members WHERE room_id = :room_id AND agent_id = :to_agent_id),
   :handoff_json, :reason, :details_json, :created_at, :previous_seq);

-- name: pending_event
SELECT e.* FROM path_rooms r JOIN room_events e ON e.event_seq = r.pending_handoff_event_seq WHERE r.room_id = :room_id;

-- name: find_event
SELECT * FROM room_events WHERE event_seq = :event_seq;

-- name: events_after
SELECT * FROM room_events WHERE room_id = :room_id AND event_seq > :after ORDER BY event_seq LIMIT :limit;

-- name: latest_events
SELECT * FROM room_events WHERE room_id = :room_id AND event_seq <= :through ORDER BY event_seq DESC LIMIT :limit;

-- name: latest_handoff
SELECT * FROM room_events WHERE room_id = :room_id AND event_type IN ('release', 'pass')
ORDER BY event_seq DESC LIMIT 1;

-- name: latest_notes
SELECT * FROM room_events WHERE room_id = :room_id AND event_type = 'note' AND event_seq > :after
ORDER BY event_seq DESC LIMIT :limit;

-- name: latest_grant
SELECT * FROM room_events
WHERE room_id = :room_id AND turn_id = :turn_id AND event_type IN ('claim', 'takeover')
ORDER BY event_seq DESC LIMIT 1;

-- name: latest_event_of
-- The latest event that gave an agent the stick or a place in the room, or took it away.
SELECT * FROM room_events
WHERE room_id = :room_id AND event_seq > :since AND (
  (to_agent_id = :agent_id AND event_type IN ('claim', 'takeover', 'kick'))
  OR (from_agent_id = :agent_id AND event_type IN ('join', 'leave', 'release', 'pass', 'return', 'takeover', 'close'))
)
ORDER BY event_seq DESC LIMIT 1;

-- name: unfinished_turn
-- A turn of an agent, under any of its ids, since the last handoff in the room. A grant that was never delivered does
-- not count.
SELECT g.event_seq FROM room_events g
WHERE g.room_id = :room_id AND g.event_type IN ('claim', 'takeover') AND g.to_agent_id IN :agent_ids
  AND g.event_seq > COALESCE((
    SELECT h.event_seq FROM room_events h WHERE h.room_id = :room_id AND h.event_type IN ('release', 'pass')
    ORDER BY h.event_seq DESC LIMIT 1
  ), 0)
  AND NOT EXISTS (
    SELECT 1 FROM room_events b
    WHERE b.room_id = :room_id AND b.event_seq > g.event_seq AND b.event_type = 'return'
      AND b.from_agent_id = g.to_agent_id
  )
LIMIT 1;
