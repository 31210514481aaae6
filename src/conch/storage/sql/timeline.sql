-- name: activity_after
SELECT * FROM room_activity WHERE room_id = :room_id AND number > :after ORDER BY number LIMIT :limit;

-- name: latest_activity
SELECT * FROM room_activity WHERE room_id = :room_id ORDER BY number DESC LIMIT :limit;

-- name: moment_in_log
SELECT max(created_at) AS moment FROM room_events WHERE room_id = :room_id AND event_seq <= :event_seq;

-- name: home_messages_before
SELECT COALESCE(
  (SELECT seq - 1 FROM messages WHERE topic_id = :topic_id AND created_at >= :moment ORDER BY seq LIMIT 1),
  (SELECT max(seq) FROM messages WHERE topic_id = :topic_id),
  0
) AS reached;

-- name: activity_before
SELECT COALESCE(
  (SELECT number - 1 FROM room_activity WHERE room_id = :room_id AND created_at >= :moment ORDER BY number LIMIT 1),
  (SELECT max(number) FROM room_activity WHERE room_id = :room_id),
  0
) AS reached;

-- name: protocol_events_by_id
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.event_id IN :event_ids;

-- name: protocol_events_of_handoffs
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.handoff_event_seq IN :event_seqs;
