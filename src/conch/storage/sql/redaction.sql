-- What `conch redact` changes. The columns in which agents and people write are looked through for repetitions.

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

-- name: repeats_in_reasons
UPDATE room_events SET reason = replace(reason, :needle, :mark) WHERE replace(reason, :needle, '') <> reason;

-- name: repeats_in_topics
UPDATE topics SET close_reason = replace(close_reason, :needle, :mark) WHERE replace(close_reason, :needle, '') <> close_reason;

-- name: repeats_in_questions
UPDATE questions SET cancel_reason = replace(cancel_reason, :needle, :mark) WHERE replace(cancel_reason, :needle, '') <> cancel_reason;

-- name: repeats_in_metadata
UPDATE messages SET metadata_json = replace(metadata_json, :needle, :mark) WHERE replace(metadata_json, :needle, '') <> metadata_json;

-- name: repeats_in_handoffs
UPDATE room_events SET handoff_json = replace(handoff_json, :needle, :mark) WHERE replace(handoff_json, :needle, '') <> handoff_json;

-- name: repeats_in_details
UPDATE room_events SET details_json = replace(details_json, :needle, :mark) WHERE replace(details_json, :needle, '') <> details_json;

-- name: repeats_in_notices
UPDATE protocol_events SET payload_json = replace(payload_json, :needle, :mark) WHERE replace(payload_json, :needle, '') <> payload_json;

-- name: repeats_in_activity
UPDATE room_activity SET details_json = replace(details_json, :needle, :mark) WHERE replace(details_json, :needle, '') <> details_json;

-- name: repeats_in_topic_metadata
UPDATE topics SET metadata_json = replace(metadata_json, :needle, :mark) WHERE replace(metadata_json, :needle, '') <> metadata_json;
