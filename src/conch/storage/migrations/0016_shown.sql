-- What a hook has shown to an agent between its tool calls. That moves no cursor and marks nothing as seen.

ALTER TABLE cursors ADD COLUMN shown_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE protocol_events ADD COLUMN shown_at BIGINT;
