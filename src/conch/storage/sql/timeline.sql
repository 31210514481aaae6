-- name: activity_after
SELECT * FROM room_activity WHERE room_id = :room_id AND number > :after ORDER BY number LIMIT :limit;

-- name: latest_activity
SELECT * FROM room_activity WHERE room_id = :room_id AND number <= :through ORDER BY number DESC LIMIT :limit;

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

-- name: item_events_after
-- The handoffs about a work item. A holder can have reserved files for several, so its handoff is about each of them.
SELECT h.* FROM room_events h JOIN protocol_events n ON n.handoff_event_seq = h.event_seq
WHERE h.room_id = :room_id AND h.event_seq > :after AND (n.bead_id = :bead_id OR EXISTS (
  SELECT 1 FROM reservations r
  WHERE r.bead_id = :bead_id AND r.room_id = n.room_id AND r.agent_id = n.from_agent_id
    AND r.created_at <= n.created_at AND r.expires_at > n.created_at
    AND COALESCE(r.ended_at, r.expires_at) > n.created_at
))
ORDER BY h.event_seq LIMIT :limit;

-- name: latest_item_events
SELECT h.* FROM room_events h JOIN protocol_events n ON n.handoff_event_seq = h.event_seq
WHERE h.room_id = :room_id AND h.event_seq <= :through AND (n.bead_id = :bead_id OR EXISTS (
  SELECT 1 FROM reservations r
  WHERE r.bead_id = :bead_id AND r.room_id = n.room_id AND r.agent_id = n.from_agent_id
    AND r.created_at <= n.created_at AND r.expires_at > n.created_at
    AND COALESCE(r.ended_at, r.expires_at) > n.created_at
))
ORDER BY h.event_seq DESC LIMIT :limit;

-- name: item_activity_after
SELECT t.* FROM room_activity t WHERE t.room_id = :room_id AND t.number > :after AND (
  t.subject_id IN (SELECT r.reservation_id FROM reservations r WHERE r.room_id = :room_id AND r.bead_id = :bead_id)
  OR t.subject_id IN (SELECT e.event_id FROM protocol_events e WHERE e.room_id = :room_id AND e.bead_id = :bead_id)
)
ORDER BY t.number LIMIT :limit;

-- name: latest_item_activity
SELECT t.* FROM room_activity t WHERE t.room_id = :room_id AND t.number <= :through AND (
  t.subject_id IN (SELECT r.reservation_id FROM reservations r WHERE r.room_id = :room_id AND r.bead_id = :bead_id)
  OR t.subject_id IN (SELECT e.event_id FROM protocol_events e WHERE e.room_id = :room_id AND e.bead_id = :bead_id)
)
ORDER BY t.number DESC LIMIT :limit;
