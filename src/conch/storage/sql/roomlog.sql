-- name: append_event
INSERT INTO room_events
  (event_id, room_id, turn_id, event_type, from_agent_id, from_agent, to_agent_id, to_agent, handoff_json, reason,
   details_json, created_at)
VALUES
  (:event_id, :room_id, :turn_id, :event_type,
   :from_agent_id, (SELECT name FROM room_members WHERE room_id = :room_id AND agent_id = :from_agent_id),
   :to_agent_id, (SELECT name FROM room_members WHERE room_id = :room_id AND agent_id = :to_agent_id),
   :handoff_json, :reason, :details_json, :created_at)
RETURNING event_seq, from_agent, to_agent;

-- name: find_event
SELECT * FROM room_events WHERE event_seq = :event_seq;

-- name: events_after
SELECT * FROM room_events WHERE room_id = :room_id AND event_seq > :after ORDER BY event_seq LIMIT :limit;

-- name: latest_events
SELECT * FROM room_events WHERE room_id = :room_id ORDER BY event_seq DESC LIMIT :limit;

-- name: latest_grant
SELECT * FROM room_events
WHERE room_id = :room_id AND turn_id = :turn_id AND event_type IN ('claim', 'takeover')
ORDER BY event_seq DESC LIMIT 1;
