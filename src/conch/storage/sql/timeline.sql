-- name: activity_after
SELECT * FROM room_activity WHERE room_id = :room_id AND number > :after ORDER BY number LIMIT :limit;

-- name: latest_activity
SELECT * FROM room_activity WHERE room_id = :room_id ORDER BY number DESC LIMIT :limit;

-- name: home_messages_after
SELECT * FROM messages WHERE topic_id = :topic_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: latest_home_messages
SELECT * FROM messages WHERE topic_id = :topic_id ORDER BY seq DESC LIMIT :limit;

-- name: protocol_events_by_id
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.event_id IN :event_ids;

-- name: protocol_events_of_handoffs
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.handoff_event_seq IN :event_seqs;
