-- What `conch redact` changes: one message, and whatever repeats it in the columns in which agents and people write.

-- name: whole_message
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id WHERE m.message_id = :message_id;

-- name: room_of_topic
SELECT room_id FROM path_rooms WHERE topic_id = :topic_id;

-- name: redact_message
UPDATE messages SET content_markdown = :text, metadata_json = :metadata_json WHERE message_id = :message_id;

-- name: repeats_in_messages
UPDATE messages SET content_markdown = replace(content_markdown, :needle, :mark) WHERE replace(content_markdown, :needle, '') <> content_markdown;

-- name: repeats_in_ids
-- A changed id would no longer be the sender's own, so it is removed.
UPDATE messages SET client_message_id = NULL WHERE replace(client_message_id, :needle, '') <> client_message_id;

-- name: repeats_in_reasons
UPDATE room_events SET reason = replace(reason, :needle, :mark) WHERE replace(reason, :needle, '') <> reason;

-- name: repeats_in_topics
UPDATE topics SET close_reason = replace(close_reason, :needle, :mark) WHERE replace(close_reason, :needle, '') <> close_reason;

-- name: repeats_in_questions
UPDATE questions SET cancel_reason = replace(cancel_reason, :needle, :mark) WHERE replace(cancel_reason, :needle, '') <> cancel_reason;

-- name: repeats_in_roles
UPDATE registrations SET role = replace(role, :needle, :mark) WHERE replace(role, :needle, '') <> role;

-- name: repeats_in_metadata
SELECT number AS key, metadata_json AS json FROM messages
WHERE number > :after AND (replace(metadata_json, :plain, '') <> metadata_json OR replace(metadata_json, :escaped, '') <> metadata_json)
ORDER BY number LIMIT :most;

-- name: redact_metadata
UPDATE messages SET metadata_json = :json WHERE number = :key;

-- name: repeats_in_topic_metadata
SELECT topic_id AS key, metadata_json AS json FROM topics
WHERE topic_id > :after AND (replace(metadata_json, :plain, '') <> metadata_json OR replace(metadata_json, :escaped, '') <> metadata_json)
ORDER BY topic_id LIMIT :most;

-- name: redact_topic_metadata
UPDATE topics SET metadata_json = :json WHERE topic_id = :key;

-- name: repeats_in_handoffs
SELECT event_seq AS key, handoff_json AS json FROM room_events
WHERE event_seq > :after AND (replace(handoff_json, :plain, '') <> handoff_json OR replace(handoff_json, :escaped, '') <> handoff_json)
ORDER BY event_seq LIMIT :most;

-- name: redact_handoffs
UPDATE room_events SET handoff_json = :json WHERE event_seq = :key;

-- name: repeats_in_details
SELECT event_seq AS key, details_json AS json FROM room_events
WHERE event_seq > :after AND (replace(details_json, :plain, '') <> details_json OR replace(details_json, :escaped, '') <> details_json)
ORDER BY event_seq LIMIT :most;

-- name: redact_details
UPDATE room_events SET details_json = :json WHERE event_seq = :key;

-- name: repeats_in_notices
SELECT number AS key, payload_json AS json FROM protocol_events
WHERE number > :after AND (replace(payload_json, :plain, '') <> payload_json OR replace(payload_json, :escaped, '') <> payload_json)
ORDER BY number LIMIT :most;

-- name: redact_notices
UPDATE protocol_events SET payload_json = :json WHERE number = :key;

-- name: repeats_in_activity
SELECT number AS key, details_json AS json FROM room_activity
WHERE number > :after AND (replace(details_json, :plain, '') <> details_json OR replace(details_json, :escaped, '') <> details_json)
ORDER BY number LIMIT :most;

-- name: redact_activity
UPDATE room_activity SET details_json = :json WHERE number = :key;

-- name: kept_repeats
-- Where a text stays, because conch finds rows by it.
SELECT 'names' AS place WHERE EXISTS (SELECT 1 FROM name_skeletons WHERE replace(name, :needle, '') <> name)
UNION ALL SELECT 'addressees' WHERE EXISTS (SELECT 1 FROM message_addressees WHERE replace(addressee, :needle, '') <> addressee)
UNION ALL SELECT 'paths of workspaces' WHERE EXISTS (
  SELECT 1 FROM path_rooms WHERE replace(canonical_path, :needle, '') <> canonical_path
)
UNION ALL SELECT 'reserved paths' WHERE EXISTS (
  SELECT 1 FROM reservations WHERE replace(scope, :needle, '') <> scope OR replace(given, :needle, '') <> given
)
UNION ALL SELECT 'scopes of notices' WHERE EXISTS (
  SELECT 1 FROM protocol_events WHERE replace(scope, :needle, '') <> scope
)
UNION ALL SELECT 'ids of work items' WHERE EXISTS (
  SELECT 1 FROM reservations WHERE replace(bead_id, :needle, '') <> bead_id
  UNION ALL SELECT 1 FROM protocol_events WHERE replace(bead_id, :needle, '') <> bead_id
);
