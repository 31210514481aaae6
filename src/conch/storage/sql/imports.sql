-- An imported peer is as old as its topic. No other peer is: it joined later.

-- name: imported_peer
SELECT peer_id FROM peers WHERE topic_id = :topic_id AND name = :name AND created_at = :created_at;

-- name: latest_own_seq
SELECT own_seq FROM messages WHERE sender_id = :sender_id ORDER BY seq DESC LIMIT 1;

-- name: place_cursor
UPDATE cursors SET last_seq = :last_seq WHERE peer_id = :peer_id AND last_seq < :last_seq;

-- name: finish_topic
UPDATE topics SET status = :status, closed_at = :closed_at, close_reason = :reason
WHERE topic_id = :topic_id AND status = 'closed' AND close_reason = :unfinished;

-- name: known_events
SELECT event_id FROM room_events WHERE event_id IN :event_ids;

-- name: events_of_room
SELECT event_id FROM room_events WHERE room_id = :room_id;
