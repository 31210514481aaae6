-- Presence that travels ahead of a read.

-- name: renew_peer
-- Renew the presence of a peer and of its agent if it is due. It never waits for another transaction.
WITH present AS (
  SELECT CAST(:now AS BIGINT) AS now
), due AS (
  SELECT c.peer_id, q.agent_id, p.now FROM peers q JOIN cursors c ON c.peer_id = q.peer_id, present p
  WHERE q.topic_id = :topic_id AND q.agent_id = :agent_id
    AND (q.peer_id = CAST(:peer_id AS BIGINT) OR CAST(:peer_id AS BIGINT) IS NULL AND q.is_own = 1)
    AND (c.updated_at <= p.now - :interval OR c.updated_at > p.now)
  FOR UPDATE OF c SKIP LOCKED
), seen AS (
  SELECT a.agent_id, due.now FROM agents a JOIN due ON due.agent_id = a.agent_id FOR UPDATE OF a SKIP LOCKED
), renewed AS (
  UPDATE cursors SET updated_at = due.now FROM due WHERE cursors.peer_id = due.peer_id
)
UPDATE agents SET last_seen_at = seen.now FROM seen WHERE agents.agent_id = seen.agent_id;

-- name: next_peer
-- Taken before the peer is added, so that everything that names the peer can be written together with it.
SELECT nextval(pg_get_serial_sequence('peers', 'peer_id')) AS peer_id;
