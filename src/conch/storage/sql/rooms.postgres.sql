-- What a call will probably need of a room, found without knowing the room's row, so that both travel together.

-- name: people_of_room
-- An agent, and the one that the room waits for.
SELECT m.*, a.last_seen_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.agent_id IN (
  SELECT CAST(:agent_id AS TEXT) UNION ALL SELECT COALESCE(owner, reserved_for) FROM path_rooms WHERE room_id = :room_id
);

-- name: members_after
-- The members after an agent and then those up to it that were seen lately. Each part has its own limit, so that it
-- ends early. Without one, it would read the whole room to sort it.
SELECT * FROM (
  SELECT * FROM (
    SELECT 0 AS lap, m.*, a.last_seen_at
    FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
    WHERE m.room_id = :room_id AND m.is_gone = 0 AND a.last_seen_at > :now - :within
      AND m.ordinal > (SELECT ordinal FROM room_members WHERE room_id = :room_id AND agent_id = :agent_id)
    ORDER BY m.ordinal LIMIT :limit
  ) ahead
  UNION ALL
  SELECT * FROM (
    SELECT 1 AS lap, m.*, a.last_seen_at
    FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
    WHERE m.room_id = :room_id AND m.is_gone = 0 AND a.last_seen_at > :now - :within
      AND m.ordinal <= (SELECT ordinal FROM room_members WHERE room_id = :room_id AND agent_id = :agent_id)
    ORDER BY m.ordinal LIMIT :limit
  ) behind
) around
ORDER BY lap, ordinal LIMIT :limit;

-- name: members_of_rooms
-- The first members of each room, without those marked as gone. In an old room, these are most of them. `OFFSET 0` lets
-- the agent of each member be looked up: the planner does not know how few they are, and would read all agents.
SELECT m.*, a.last_seen_at
FROM path_rooms r CROSS JOIN LATERAL (
  SELECT * FROM room_members l WHERE l.room_id = r.room_id AND l.is_gone = 0 ORDER BY l.ordinal LIMIT :most
) m CROSS JOIN LATERAL (SELECT last_seen_at FROM agents WHERE agent_id = m.agent_id OFFSET 0) a
WHERE r.room_id IN :room_ids
ORDER BY m.room_id, m.ordinal;

-- name: renew_agent
-- Renew a sign of life that is due, and tell whether it is fresh now. It never waits for another transaction.
WITH present AS (
  SELECT CAST(:now AS BIGINT) AS now
), due AS (
  SELECT a.agent_id, p.now FROM agents a, present p
  WHERE a.agent_id = :agent_id AND a.last_seen_at <= p.now - :interval
  FOR UPDATE OF a SKIP LOCKED
), renewed AS (
  UPDATE agents SET last_seen_at = due.now FROM due WHERE agents.agent_id = due.agent_id RETURNING due.agent_id
)
SELECT a.last_seen_at > p.now - :interval OR EXISTS (SELECT 1 FROM renewed) AS is_fresh
FROM agents a, present p WHERE a.agent_id = :agent_id;

-- name: listened_bells
-- The numbers of all bells that have listeners. It needs no locks, unlike a test of single bells.
SELECT (CAST(l.classid AS BIGINT) << 32) | CAST(l.objid AS BIGINT) AS bell
FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.mode = 'ShareLock' AND l.objsubid = 1 AND d.datname = current_database();
