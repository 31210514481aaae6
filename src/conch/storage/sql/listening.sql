-- Waiting for everything at once. Each agent has one listener.

-- name: start_hearing
-- An agent hears the messages to all that were sent after it joined a topic.
INSERT INTO marks (agent_id, kind, place, through, updated_at)
SELECT :agent_id, 'all', t.topic_id, COALESCE((
  SELECT m.seq FROM messages m WHERE m.topic_id = t.topic_id AND m.created_at < t.joined_at ORDER BY m.seq DESC LIMIT 1
), 0), :now
FROM (
  SELECT p.topic_id, min(p.created_at) AS joined_at FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
  WHERE p.agent_id = :agent_id GROUP BY p.topic_id
) t
WHERE NOT EXISTS (SELECT 1 FROM marks k WHERE k.agent_id = :agent_id AND k.kind = 'all' AND k.place = t.topic_id)
ON CONFLICT (agent_id, kind, place) DO NOTHING;

-- name: find_listener
SELECT listener_id, host_id, boot_id, pid, process_started_at, started_at, expires_at
FROM listeners WHERE agent_id = :agent_id;

-- name: put_listener
INSERT INTO listeners
  (agent_id, listener_id, host_id, boot_id, pid, process_started_at, started_at, expires_at)
VALUES
  (:agent_id, :listener_id, :host_id, :boot_id, :pid, :process_started_at, :now, :expires_at)
ON CONFLICT (agent_id) DO UPDATE SET
  listener_id = excluded.listener_id, host_id = excluded.host_id, boot_id = excluded.boot_id, pid = excluded.pid,
  process_started_at = excluded.process_started_at, started_at = excluded.started_at, expires_at = excluded.expires_at;

-- name: renew_listener
UPDATE listeners SET expires_at = :expires_at WHERE agent_id = :agent_id AND listener_id = :listener_id;

-- name: drop_listener
DELETE FROM listeners WHERE agent_id = :agent_id AND listener_id = :listener_id;

-- name: topics_of_agent
SELECT DISTINCT p.topic_id FROM peers p JOIN cursors c ON c.peer_id = p.peer_id JOIN topics t ON t.topic_id = p.topic_id
WHERE p.agent_id = :agent_id AND t.status = 'open';

-- name: free_room_of_agent
SELECT r.room_id FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE m.agent_id = :agent_id AND m.takes_turns = 1 AND r.state = 'idle' ORDER BY m.joined_at DESC LIMIT 1;

-- name: rooms_of_agent
SELECT r.room_id, r.owner FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE m.agent_id = :agent_id AND r.state <> 'closed' ORDER BY m.joined_at DESC LIMIT :limit;

-- name: sticks_for_agent
SELECT r.room_id, r.turn_id FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE m.agent_id = :agent_id AND r.state = 'reserved' AND r.reserved_for = m.agent_id
ORDER BY m.joined_at DESC LIMIT :limit;
