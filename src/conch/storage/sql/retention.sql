-- What `conch db prune` may delete, and how. A cursor lives if it has moved, or its agent was seen, since
-- `alive_since`.

-- name: topics_with_numbers
SELECT t.topic_id, t.status, s.pruned_seq, s.next_seq - 1 AS last_seq
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id ORDER BY t.created_at, t.topic_id;

-- name: topic_numbers
SELECT pruned_seq, next_seq - 1 AS last_seq FROM topic_seq WHERE topic_id = :topic_id;

-- name: first_unread
-- The first message of another peer that a living cursor has not passed. Messages from before a peer joined do not wait
-- for it, so a peer that joined after `cutoff` has nothing old to read.
SELECT min((
  SELECT m.seq FROM messages m
  WHERE m.topic_id = c.topic_id AND m.seq > c.last_seq AND m.seq <= :through AND m.sender_id <> c.peer_id
    AND m.created_at >= p.created_at
  ORDER BY m.seq LIMIT 1
)) AS seq
FROM cursors c JOIN peers p ON p.peer_id = c.peer_id LEFT JOIN agents a ON a.agent_id = p.agent_id
WHERE c.topic_id = :topic_id AND c.last_seq < :through AND p.created_at < :cutoff
  AND (c.updated_at >= :alive_since OR a.last_seen_at >= :alive_since);

-- name: first_pending
-- The first pending question, or the first message of the thread in which one was asked.
WITH RECURSIVE thread (seq, reply_to) AS (
  SELECT m.seq, m.reply_to FROM questions q JOIN messages m ON m.message_id = q.question_id
  WHERE q.topic_id = :topic_id AND q.status = 'pending'
  UNION
  SELECT m.seq, m.reply_to FROM thread t JOIN messages m ON m.message_id = t.reply_to AND m.topic_id = :topic_id
)
SELECT min(seq) AS seq FROM thread;

-- name: first_young
SELECT seq FROM messages WHERE topic_id = :topic_id AND seq > :after AND created_at >= :cutoff ORDER BY seq LIMIT 1;

-- name: first_split_question
-- The first question before a place that has an answer after it. Both stay.
SELECT min(m.seq) AS seq
FROM messages m JOIN answers a ON a.question_id = m.message_id JOIN messages n ON n.message_id = a.answer_id
WHERE m.topic_id = :topic_id AND m.seq > :after AND m.seq < :place AND m.message_type = 'question' AND n.seq >= :place;

-- name: messages_to_prune
SELECT number, seq, sender_id, message_type, metadata_json, substr(content_markdown, 1, :longest) AS text
FROM messages WHERE topic_id = :topic_id AND seq > :after AND seq <= :through ORDER BY seq;

-- name: prune_answers
DELETE FROM answers WHERE question_id IN (
  SELECT m.message_id FROM messages m
  WHERE m.topic_id = :topic_id AND m.seq > :after AND m.seq <= :through AND m.message_type = 'question'
);

-- name: prune_questions
DELETE FROM questions WHERE question_id IN (
  SELECT m.message_id FROM messages m
  WHERE m.topic_id = :topic_id AND m.seq > :after AND m.seq <= :through AND m.message_type = 'question'
);

-- name: prune_addressees
DELETE FROM message_addressees WHERE addressee IN :addressees AND topic_id = :topic_id AND seq <= :through;

-- name: prune_vectors
DELETE FROM index_vectors WHERE model = :model AND number IN (
  SELECT m.number FROM messages m WHERE m.topic_id = :topic_id AND m.seq > :after AND m.seq <= :through
);

-- name: vector_kinds
SELECT DISTINCT kind FROM index_progress WHERE topic_id = :topic_id AND kind <> 'words';

-- name: prune_messages
DELETE FROM messages WHERE topic_id = :topic_id AND seq > :after AND seq <= :through;

-- name: raise_cursors
-- A cursor never points into the pruned messages.
UPDATE cursors SET last_seq = :through WHERE topic_id = :topic_id AND last_seq < :through;

-- name: raise_progress
UPDATE index_progress SET through_seq = :through WHERE topic_id = :topic_id AND through_seq < :through;

-- name: note_pruned
UPDATE topic_seq SET pruned_seq = :through WHERE topic_id = :topic_id;

-- name: rooms_with_checkpoints
SELECT r.room_id, COALESCE(k.event_seq, 0) AS pruned, r.last_event_seq FROM path_rooms r
LEFT JOIN room_checkpoints k ON k.room_id = r.room_id
ORDER BY r.created_at, r.room_id;

-- name: first_kept_event
-- The first event that is young, or that the room still needs: its last handoff, the one that waits, the last event, and
-- the claim of the turn that goes on.
SELECT min(e.event_seq) AS event_seq FROM (
  SELECT min(event_seq) AS event_seq FROM room_events
  WHERE room_id = :room_id AND event_seq > :after AND created_at >= :cutoff
  UNION ALL
  SELECT max(event_seq) FROM room_events WHERE room_id = :room_id AND event_type IN ('release', 'pass')
  UNION ALL
  SELECT min(g.event_seq) FROM path_rooms r JOIN room_events g ON g.room_id = r.room_id AND g.turn_id = r.turn_id
  WHERE r.room_id = :room_id AND r.owner IS NOT NULL
  UNION ALL
  SELECT pending_handoff_event_seq FROM path_rooms WHERE room_id = :room_id
  UNION ALL
  SELECT last_event_seq FROM path_rooms WHERE room_id = :room_id
) e;

-- name: count_events
SELECT count(*) AS total FROM room_events WHERE room_id = :room_id AND event_seq > :after AND event_seq <= :through;

-- name: find_checkpoint
SELECT event_seq, replay_json FROM room_checkpoints WHERE room_id = :room_id;

-- name: set_checkpoint
INSERT INTO room_checkpoints (room_id, event_seq, replay_json, created_at)
VALUES (:room_id, :event_seq, :replay_json, :now)
ON CONFLICT (room_id) DO UPDATE SET
  event_seq = excluded.event_seq, replay_json = excluded.replay_json, created_at = excluded.created_at;

-- name: prune_events
DELETE FROM room_events WHERE room_id = :room_id AND event_seq <= :through;

-- name: reservations_to_prune
SELECT number, reservation_id AS subject_id, room_id, NULL AS handoff_event_seq FROM reservations
WHERE number > :after AND state <> 'active' AND ended_at < :cutoff ORDER BY number LIMIT :most;

-- name: rooms_with_lapsed
-- A reservation that expired stays active until another one takes its place.
SELECT room_id, count(*) AS total FROM reservations WHERE state = 'active' AND expires_at < :cutoff
GROUP BY room_id ORDER BY room_id;

-- name: lapsed_reservations
SELECT reservation_id AS subject_id FROM reservations
WHERE room_id = :room_id AND state = 'active' AND expires_at < :cutoff ORDER BY number LIMIT :most;

-- name: notices_to_prune
-- An adoption stays: it says why an agent is registered.
SELECT number, event_id AS subject_id, room_id, handoff_event_seq FROM protocol_events
WHERE number > :after AND state = 'accepted' AND accepted_at < :cutoff AND event_type <> 'RESUME'
ORDER BY number LIMIT :most;

-- name: wakes_to_prune
SELECT number, subject_id, room_id, NULL AS handoff_event_seq FROM room_activity
WHERE number > :after AND kind = 'wake' AND created_at < :cutoff ORDER BY number LIMIT :most;

-- name: prune_activity
DELETE FROM room_activity WHERE subject_id IN :subjects;

-- name: prune_reservations
DELETE FROM reservations WHERE reservation_id IN :subjects;

-- name: prune_notices
DELETE FROM protocol_events WHERE event_id IN :subjects;

-- name: closed_rooms_to_erase
-- The closed rooms in which nothing waits to be accepted by an agent that was seen since `alive_since`, or to be released.
SELECT r.room_id, r.topic_id FROM path_rooms r JOIN topics t ON t.topic_id = r.topic_id
WHERE r.state = 'closed' AND t.closed_at < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM protocol_events e JOIN agents a ON a.agent_id = e.to_agent_id
    WHERE e.room_id = r.room_id AND e.state <> 'accepted' AND a.last_seen_at >= :alive_since
  )
  AND NOT EXISTS (
    SELECT 1 FROM reservations v WHERE v.room_id = r.room_id AND v.state = 'active' AND v.expires_at >= :cutoff
  );

-- name: closed_topics_to_erase
SELECT NULL AS room_id, topic_id FROM topics WHERE status = 'closed' AND mode <> 'home' AND closed_at < :cutoff;

-- name: closed_seats
-- The rooms whose bells are no longer needed, with their members.
SELECT r.room_id, COALESCE(m.agent_id, '') AS agent_id
FROM path_rooms r LEFT JOIN room_members m ON m.room_id = r.room_id WHERE r.state = 'closed';

-- name: closed_topics
SELECT topic_id FROM topics WHERE status = 'closed';

-- name: agents_unseen
SELECT agent_id FROM agents WHERE last_seen_at < :cutoff;

-- name: members_to_part_with
-- Members that were not seen for a long time, hold nothing and have nothing to accept.
SELECT m.*, a.last_seen_at FROM path_rooms r JOIN room_members m ON m.room_id = r.room_id
JOIN agents a ON a.agent_id = m.agent_id
WHERE r.room_id = :room_id AND r.state <> 'closed' AND m.ordinal > :after
  AND a.last_seen_at < :unseen_since AND m.joined_at < :unseen_since
  AND COALESCE(r.owner, r.reserved_for, '') <> m.agent_id
  AND NOT EXISTS (
    SELECT 1 FROM reservations v WHERE v.room_id = m.room_id AND v.agent_id = m.agent_id AND v.state = 'active'
  )
  AND NOT EXISTS (
    SELECT 1 FROM protocol_events e
    WHERE e.to_agent_id = m.agent_id AND e.room_id = m.room_id AND e.state IN ('unread', 'seen')
  )
ORDER BY m.ordinal LIMIT :most;

-- name: peers_to_forget
-- Peers under the own names of agents that were not seen for a long time. No message from or to such a peer is left.
SELECT p.peer_id AS id, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM agents a JOIN peers p ON p.agent_id = a.agent_id AND p.is_own = 1
WHERE p.peer_id > :after AND a.last_seen_at < :unseen_since AND p.last_claimed_at < :unseen_since
  AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.sender_id = p.peer_id)
  AND NOT EXISTS (
    SELECT 1 FROM agent_name_reservations n JOIN message_addressees m
    ON m.addressee = n.agent_name AND m.topic_id = n.topic_id
    WHERE n.peer_id = p.peer_id
  )
  AND NOT EXISTS (
    SELECT 1 FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
    WHERE m.agent_id = p.agent_id AND r.topic_id = p.topic_id
  )
ORDER BY p.peer_id LIMIT :most;

-- name: peers_with_questions
-- An adoption gives questions and answers to a peer that did not send them.
SELECT asked_by_id AS peer_id FROM questions UNION SELECT answered_by_id FROM answers;

-- name: agents_to_forget
SELECT a.agent_id AS id, a.host_id, a.boot_id, a.pid, a.process_started_at FROM agents a
WHERE a.agent_id > :after AND a.last_seen_at < :unseen_since AND a.created_at < :unseen_since
  AND NOT EXISTS (SELECT 1 FROM room_members m WHERE m.agent_id = a.agent_id)
  AND NOT EXISTS (SELECT 1 FROM peers p WHERE p.agent_id = a.agent_id)
  AND NOT EXISTS (SELECT 1 FROM registrations g WHERE g.agent_id = a.agent_id)
  AND NOT EXISTS (SELECT 1 FROM reservations v WHERE v.agent_id = a.agent_id)
  AND NOT EXISTS (SELECT 1 FROM protocol_events e WHERE e.to_agent_id = a.agent_id)
ORDER BY a.agent_id LIMIT :most;

-- name: recorded_agents
SELECT from_agent_id AS agent_id FROM room_events WHERE from_agent_id IS NOT NULL
UNION SELECT to_agent_id FROM room_events WHERE to_agent_id IS NOT NULL
UNION SELECT agent_id FROM room_activity WHERE agent_id IS NOT NULL
UNION SELECT from_agent_id FROM protocol_events WHERE from_agent_id IS NOT NULL;

-- name: forget_cursors
DELETE FROM cursors WHERE peer_id IN :ids;

-- name: forget_topic_names
DELETE FROM agent_name_reservations WHERE peer_id IN :ids;

-- name: forget_peers
DELETE FROM peers WHERE peer_id IN :ids;

-- name: forget_marks
DELETE FROM marks WHERE agent_id IN :ids;

-- name: forget_listeners
DELETE FROM listeners WHERE agent_id IN :ids;

-- name: forget_connections
DELETE FROM connections WHERE agent_id IN :ids;

-- name: forget_signals
DELETE FROM agent_signals WHERE agent_id IN :ids;

-- name: forget_agents
DELETE FROM agents WHERE agent_id IN :ids;

-- name: claim_pruning
-- Only the first process that asks gets it. If that process does not finish, pruning is soon due again.
INSERT INTO meta (key, value) VALUES ('pruned_at', :now)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE CAST(meta.value AS BIGINT) <= :due;

-- name: note_pruning
UPDATE meta SET value = :now WHERE key = 'pruned_at';

-- name: pruned_at
SELECT value FROM meta WHERE key = 'pruned_at';
