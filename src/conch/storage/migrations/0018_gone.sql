-- Whether the member's process was proved to be gone. Such members are many in an old room, and need not be read again.

ALTER TABLE room_members ADD COLUMN is_gone BIGINT NOT NULL DEFAULT 0;

CREATE INDEX room_members_sequence_idx ON room_members (room_id, is_gone, ordinal);
