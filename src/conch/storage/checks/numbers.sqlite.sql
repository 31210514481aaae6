-- Only `conch db wipe --room` and `conch db prune` delete rows of these tables, and they note the last number given until
-- then. Otherwise the last number given is that of the last row.

-- check: messages
-- The last row of messages has the number {last}, but numbers up to {given} were given: rows are missing.
SELECT * FROM (
  SELECT COALESCE((SELECT max(number) FROM messages), 0) AS last,
    COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) AS given
) WHERE last <> given AND NOT EXISTS (
  SELECT 1 FROM meta WHERE key = 'erased messages' AND value = CAST(given AS TEXT)
);

-- check: room_events
-- The last row of room_events has the number {last}, but numbers up to {given} were given: rows are missing.
SELECT * FROM (
  SELECT COALESCE((SELECT max(event_seq) FROM room_events), 0) AS last,
    COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'room_events'), 0) AS given
) WHERE last <> given AND NOT EXISTS (
  SELECT 1 FROM meta WHERE key = 'erased room_events' AND value = CAST(given AS TEXT)
);

-- check: room_activity
-- The last row of room_activity has the number {last}, but numbers up to {given} were given: rows are missing.
SELECT * FROM (
  SELECT COALESCE((SELECT max(number) FROM room_activity), 0) AS last,
    COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'room_activity'), 0) AS given
) WHERE last <> given AND NOT EXISTS (
  SELECT 1 FROM meta WHERE key = 'erased room_activity' AND value = CAST(given AS TEXT)
);

-- check: protocol_events
-- The last row of protocol_events has the number {last}, but numbers up to {given} were given: rows are missing.
SELECT * FROM (
  SELECT COALESCE((SELECT max(number) FROM protocol_events), 0) AS last,
    COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'protocol_events'), 0) AS given
) WHERE last <> given AND NOT EXISTS (
  SELECT 1 FROM meta WHERE key = 'erased protocol_events' AND value = CAST(given AS TEXT)
);

-- check: reservations
-- The last row of reservations has the number {last}, but numbers up to {given} were given: rows are missing.
SELECT * FROM (
  SELECT COALESCE((SELECT max(number) FROM reservations), 0) AS last,
    COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'reservations'), 0) AS given
) WHERE last <> given AND NOT EXISTS (
  SELECT 1 FROM meta WHERE key = 'erased reservations' AND value = CAST(given AS TEXT)
);
