-- Since when a member waits for the stick, and when it last did, for people who look at the room.

ALTER TABLE room_members ADD COLUMN waiting_since BIGINT;
ALTER TABLE room_members ADD COLUMN waited_at BIGINT;
