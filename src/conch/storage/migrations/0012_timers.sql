-- An agent that was registered by name on the command line lives by the time since its last call, not by a process.

ALTER TABLE agents ADD COLUMN is_timed BIGINT NOT NULL DEFAULT 0;
