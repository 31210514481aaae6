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

-- check: connections
-- The connection {connection} of {agent_id} records only part of its process.
SELECT connection, agent_id FROM connections
WHERE (pid IS NULL) <> (host_id IS NULL) OR (pid IS NULL) <> (boot_id IS NULL)
  OR (pid IS NULL) <> (process_started_at IS NULL);
