-- name: find_reservation
SELECT * FROM agent_name_reservations WHERE topic_id = :topic_id AND agent_name = :agent_name;

-- name: own_reservation
SELECT * FROM agent_name_reservations WHERE agent_id = :agent_id AND topic_id = :topic_id AND is_own = 1;

-- name: names_of_itself
SELECT r.agent_name, r.created_at, former.agent_name AS former_name
FROM agent_name_reservations r
LEFT JOIN agent_name_reservations former ON former.topic_id = r.topic_id AND former.renamed_to = r.agent_name
WHERE r.agent_id = :agent_id AND r.topic_id = :topic_id AND r.is_own = 1
ORDER BY former.agent_name;

-- name: names_of_peer
SELECT r.agent_name, r.created_at, former.agent_name AS former_name
FROM agent_name_reservations r
LEFT JOIN agent_name_reservations former ON former.topic_id = r.topic_id AND former.renamed_to = r.agent_name
WHERE r.topic_id = :topic_id AND r.agent_name = :agent_name
ORDER BY former.agent_name;

-- name: reserve_name
INSERT INTO agent_name_reservations
  (topic_id, agent_name, agent_id, is_own, reclaim_token_hash, after_seq, created_at, last_claimed_at)
SELECT s.topic_id, :agent_name, :agent_id, :is_own, :reclaim_token_hash, s.next_seq - 1, :now, :now
FROM topic_seq s WHERE s.topic_id = :topic_id
ON CONFLICT (topic_id, agent_name) DO NOTHING;

-- name: claim_name
UPDATE agent_name_reservations
SET is_own = CASE agent_id WHEN :agent_id THEN is_own ELSE 0 END, agent_id = :agent_id,
  reclaim_token_hash = :reclaim_token_hash, last_claimed_at = :now
WHERE topic_id = :topic_id AND agent_name = :agent_name;

-- name: free_name
DELETE FROM agent_name_reservations
WHERE topic_id = :topic_id AND (agent_name = :agent_name OR renamed_to = :agent_name);

-- name: drop_cursor
DELETE FROM cursors WHERE topic_id = :topic_id AND agent_name = :agent_name;

-- name: names_on_topic
SELECT agent_name, agent_id FROM agent_name_reservations
WHERE topic_id = :topic_id AND (agent_name IN :names OR agent_id IN :names);

-- name: add_cursor
INSERT INTO cursors (topic_id, agent_name, updated_at) VALUES (:topic_id, :agent_name, :now)
ON CONFLICT (topic_id, agent_name) DO UPDATE SET updated_at = excluded.updated_at;

-- name: touch_cursor
UPDATE cursors SET updated_at = :now WHERE topic_id = :topic_id AND agent_name = :agent_name;

-- name: move_cursor
UPDATE cursors
SET
  last_seq = CASE WHEN resets = :resets AND last_seq < :last_seq THEN :last_seq ELSE last_seq END,
  updated_at = :now
WHERE topic_id = :topic_id AND agent_name = :agent_name
  AND EXISTS (SELECT 1 FROM agent_name_reservations r
              WHERE r.topic_id = :topic_id AND r.agent_name = :agent_name AND r.created_at = :reserved_at);

-- name: set_cursor
UPDATE cursors SET last_seq = :last_seq, resets = resets + 1, updated_at = :now
WHERE topic_id = :topic_id AND agent_name = :agent_name;

-- name: peer_state
SELECT t.status, s.next_seq, r.created_at AS reserved_at, r.renamed_to,
  (SELECT count(*) FROM agent_name_reservations former
   WHERE former.topic_id = t.topic_id AND former.renamed_to = :agent_name) AS former_names,
  c.last_seq, c.updated_at, c.resets
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id
LEFT JOIN agent_name_reservations r ON r.topic_id = t.topic_id AND r.agent_name = :agent_name
LEFT JOIN cursors c ON c.topic_id = t.topic_id AND c.agent_name = :agent_name
WHERE t.topic_id = :topic_id;

-- name: recent_peers
SELECT c.agent_name, c.last_seq, c.updated_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM cursors c
LEFT JOIN agent_name_reservations r ON r.topic_id = c.topic_id AND r.agent_name = c.agent_name
LEFT JOIN agents a ON a.agent_id = r.agent_id
WHERE c.topic_id = :topic_id AND c.updated_at >= :since
ORDER BY c.updated_at DESC, c.agent_name;
