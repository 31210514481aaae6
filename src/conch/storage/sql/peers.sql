-- name: peer_named
SELECT p.* FROM agent_name_reservations n JOIN peers p ON p.peer_id = n.peer_id
WHERE n.topic_id = :topic_id AND n.agent_name = :agent_name;

-- name: peer_named_in_room
-- The same on the home topic of a room.
SELECT p.* FROM path_rooms r
JOIN agent_name_reservations n ON n.topic_id = r.topic_id AND n.agent_name = :agent_name
JOIN peers p ON p.peer_id = n.peer_id
WHERE r.room_id = :room_id;

-- name: own_peer
SELECT * FROM peers WHERE agent_id = :agent_id AND topic_id = :topic_id AND is_own = 1;

-- name: system_peer
SELECT * FROM peers WHERE topic_id = :topic_id AND name = :name AND agent_id IS NULL;

-- name: peers_named
SELECT peer_id, agent_id FROM peers
WHERE name = :name AND (CAST(:topic_id AS TEXT) IS NULL OR topic_id = :topic_id)
UNION
SELECT p.peer_id, p.agent_id FROM agent_name_reservations n JOIN peers p ON p.peer_id = n.peer_id
WHERE n.agent_name = :name AND (CAST(:topic_id AS TEXT) IS NULL OR n.topic_id = :topic_id);

-- name: names_of_peer
SELECT agent_name FROM agent_name_reservations WHERE peer_id = :peer_id;

-- name: known_on_topic
-- A name comes last, because it wins over an agent_id. An agent that has several peers is shown as itself.
SELECT p.agent_id AS called, p.name, p.agent_id, p.peer_id, p.is_own AS weight
FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
WHERE p.topic_id = :topic_id AND p.agent_id IN :names
UNION
SELECT n.agent_name AS called, p.name, p.agent_id, p.peer_id, 2 AS weight
FROM agent_name_reservations n JOIN peers p ON p.peer_id = n.peer_id
WHERE n.topic_id = :topic_id AND n.agent_name IN :names
ORDER BY weight;

-- name: add_peer
INSERT INTO peers (peer_id, topic_id, name, agent_id, is_own, reclaim_token_hash, created_at, last_claimed_at)
VALUES (:peer_id, :topic_id, :name, :agent_id, :is_own, :reclaim_token_hash, :now, :now);

-- name: take_name
INSERT INTO agent_name_reservations (topic_id, agent_name, peer_id) VALUES (:topic_id, :agent_name, :peer_id);

-- name: insert_peer
INSERT INTO peers (topic_id, name, agent_id, is_own, reclaim_token_hash, created_at, last_claimed_at)
VALUES (:topic_id, :name, :agent_id, :is_own, :reclaim_token_hash, :now, :now)
RETURNING peer_id;

-- name: claim_peer
UPDATE peers
SET is_own = CASE agent_id WHEN :agent_id THEN is_own ELSE 0 END, agent_id = :agent_id,
  reclaim_token_hash = :reclaim_token_hash, last_claimed_at = :now
WHERE peer_id = :peer_id;

-- name: disown_peer
UPDATE peers SET is_own = 0, reclaim_token_hash = NULL WHERE peer_id = :peer_id;

-- name: reserve_name
INSERT INTO agent_name_reservations (topic_id, agent_name, peer_id) VALUES (:topic_id, :agent_name, :peer_id)
ON CONFLICT (agent_name, topic_id) DO NOTHING;

-- name: rename_peer
UPDATE peers SET name = :name WHERE peer_id = :peer_id AND EXISTS (
  SELECT 1 FROM agent_name_reservations n
  WHERE n.agent_name = :name AND n.topic_id = peers.topic_id AND n.peer_id = peers.peer_id
);

-- name: free_name
DELETE FROM agent_name_reservations WHERE agent_name = :agent_name AND topic_id = :topic_id;

-- name: free_names
DELETE FROM agent_name_reservations WHERE peer_id = :peer_id;

-- name: hand_over_names
-- The peer keeps the name that it has now.
UPDATE agent_name_reservations SET peer_id = :heir_id
WHERE peer_id = :peer_id AND agent_name <> (SELECT name FROM peers WHERE peer_id = :peer_id);

-- name: add_cursor
-- A new cursor starts after the pruned messages.
INSERT INTO cursors (peer_id, topic_id, last_seq, updated_at)
SELECT :peer_id, topic_id, pruned_seq, :now FROM topic_seq WHERE topic_id = :topic_id;

-- name: touch_cursor
UPDATE cursors SET updated_at = :now WHERE peer_id = :peer_id;

-- name: move_cursor
-- A reply from before a reset must not move the cursor, and a late reply must not move it back.
UPDATE cursors
SET
  last_seq = CASE WHEN resets = :resets AND last_seq < :last_seq THEN :last_seq ELSE last_seq END,
  updated_at = :now
WHERE peer_id = :peer_id;

-- name: set_cursor
-- A cursor never points into the pruned messages.
UPDATE cursors SET resets = resets + 1, updated_at = :now, last_seq = (
  SELECT CASE WHEN s.pruned_seq > :last_seq THEN s.pruned_seq ELSE :last_seq END
  FROM topic_seq s WHERE s.topic_id = cursors.topic_id
)
WHERE peer_id = :peer_id
RETURNING last_seq;

-- name: set_cursor_back
UPDATE cursors SET resets = resets + 1, updated_at = :now, last_seq = (
  SELECT CASE WHEN :last_seq >= cursors.last_seq THEN cursors.last_seq WHEN s.pruned_seq > :last_seq THEN s.pruned_seq
    ELSE :last_seq END
  FROM topic_seq s WHERE s.topic_id = cursors.topic_id
)
WHERE peer_id = :peer_id;

-- name: drop_cursor
DELETE FROM cursors WHERE peer_id = :peer_id;

-- name: standing_of_peer
SELECT t.status, s.next_seq, p.peer_id, p.name, c.last_seq, c.updated_at, c.resets
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id
LEFT JOIN peers p ON p.topic_id = t.topic_id AND p.peer_id = :peer_id
LEFT JOIN cursors c ON c.peer_id = p.peer_id
WHERE t.topic_id = :topic_id;

-- name: standing_of_agent
SELECT t.status, s.next_seq, p.peer_id, p.name, c.last_seq, c.updated_at, c.resets
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id
LEFT JOIN peers p ON p.topic_id = t.topic_id AND p.agent_id = :agent_id AND p.is_own = 1
LEFT JOIN cursors c ON c.peer_id = p.peer_id
WHERE t.topic_id = :topic_id;

-- name: recent_peers
SELECT p.peer_id, p.name AS agent_name, p.agent_id, c.last_seq, c.updated_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM cursors c JOIN peers p ON p.peer_id = c.peer_id LEFT JOIN agents a ON a.agent_id = p.agent_id
WHERE c.topic_id = :topic_id AND c.updated_at >= :since AND c.peer_id > :after
ORDER BY c.peer_id;
