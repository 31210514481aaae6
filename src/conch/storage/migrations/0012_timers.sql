-- Whether an agent registered by name on the command line is active depends on the time since its last call, not on a process.

ALTER TABLE agents ADD COLUMN is_timed BIGINT NOT NULL DEFAULT 0;
