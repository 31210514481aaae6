-- A name is unique within a room. Another room can have another agent with the same name.

ALTER TABLE room_members ADD COLUMN name TEXT NOT NULL DEFAULT '';

UPDATE room_members SET name = (SELECT a.name FROM agents a WHERE a.agent_id = room_members.agent_id);

CREATE UNIQUE INDEX room_members_name_idx ON room_members (name, room_id);
