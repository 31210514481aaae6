-- The process of an agent is recorded whole or not at all.

-- check: agents
-- A row of agents, agent_id {agent_id}, records only part of its process.
SELECT agent_id FROM agents
WHERE (pid IS NULL) <> (host_id IS NULL) OR (pid IS NULL) <> (boot_id IS NULL)
  OR (pid IS NULL) <> (process_started_at IS NULL);

-- check: agents
-- The agent {agent_id} has no name.
SELECT agent_id FROM agents WHERE name = '';

-- check: room_members
-- The member {agent_id} of room {room_id} records only part of its process.
SELECT room_id, agent_id FROM room_members
WHERE (pid IS NULL) <> (host_id IS NULL) OR (pid IS NULL) <> (boot_id IS NULL)
  OR (pid IS NULL) <> (process_started_at IS NULL);

-- check: room_members
-- The member {agent_id} of room {room_id} is marked as gone ({is_gone}), but no process of it is known.
SELECT room_id, agent_id, is_gone FROM room_members WHERE is_gone <> 0 AND (is_gone <> 1 OR pid IS NULL);

-- check: connections
-- The connection {connection} of {agent_id} is not named after the process that it records.
SELECT connection, agent_id FROM connections
WHERE COALESCE(
  connection <> 'connection:' || host_id || ':' || boot_id || ':' || pid || ':' || process_started_at, 1 = 1
);

-- check: connections
-- The connection {connection} of {agent_id} was closed before it was opened.
SELECT connection, agent_id, opened_at, closed_at FROM connections WHERE closed_at < opened_at;

-- check: agents
-- The agent {agent_id} has no harness or an unknown kind of session, {session_kind}.
SELECT agent_id, harness, session_kind FROM agents
WHERE harness = '' OR session_kind NOT IN ('mcp_harness', 'human_guardian', 'script', 'cli', 'import');

-- check: agents
-- The is_timed of agent {agent_id} is {is_timed}, but it must be 0 or 1.
SELECT agent_id, is_timed FROM agents WHERE is_timed NOT IN (0, 1);

-- check: room_members
-- The member {agent_id} of room {room_id} has an unknown kind of session, {session_kind}.
SELECT room_id, agent_id, session_kind FROM room_members
WHERE session_kind NOT IN ('mcp_harness', 'human_guardian', 'script', 'cli', 'import');

-- Every name is listed with what it looks like. A name stays listed after its last use.

-- check: name_skeletons shapes
-- The name {name} is not listed in name_skeletons with all its shapes, so another name could pass for it.
SELECT used.name, count(k.name) AS listed
FROM (
  SELECT name FROM topics UNION SELECT agent_name FROM agent_name_reservations UNION SELECT name FROM room_members
  UNION SELECT name FROM agents UNION SELECT agent_id FROM agents
) used LEFT JOIN name_skeletons k ON k.name = used.name
WHERE used.name <> '' GROUP BY used.name;

-- check: name_skeletons shape
-- The name {name} is listed in name_skeletons with a shape that is not its own.
SELECT skeleton, name FROM name_skeletons;

-- check: registrations
-- The registration of {agent_id} in room {room_id} is not what room_activity says.
SELECT g.room_id, g.agent_id, g.registered_at
FROM registrations g LEFT JOIN (
  SELECT room_id, agent_id, min(created_at) AS first_at FROM room_activity WHERE kind IN ('registered', 'RESUME')
  GROUP BY room_id, agent_id
) t ON t.room_id = g.room_id AND t.agent_id = g.agent_id
WHERE COALESCE(t.first_at <> g.registered_at, 1 = 1);

-- check: registrations
-- According to room_activity, {agent_id} is registered in room {room_id}, but its registration is missing.
SELECT DISTINCT t.room_id, t.agent_id
FROM room_activity t LEFT JOIN registrations g ON g.room_id = t.room_id AND g.agent_id = t.agent_id
WHERE t.kind IN ('registered', 'RESUME') AND g.agent_id IS NULL;
