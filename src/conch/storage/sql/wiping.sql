-- What `conch db wipe` counts, and how it deletes one room with its home topic.

-- name: count_messages
SELECT COUNT(*) AS total FROM messages;

-- name: count_messages_of
SELECT COUNT(*) AS total FROM messages WHERE topic_id = :topic_id;

-- name: erase_answers
DELETE FROM answers WHERE question_id IN (SELECT q.question_id FROM questions q WHERE q.topic_id = :topic_id);

-- name: erase_questions
DELETE FROM questions WHERE topic_id = :topic_id;

-- name: erase_addressees
DELETE FROM message_addressees WHERE topic_id = :topic_id;

-- name: erase_messages
DELETE FROM messages WHERE topic_id = :topic_id;

-- name: erase_marks
DELETE FROM marks WHERE place IN (:room_id, :topic_id);

-- name: erase_cursors
DELETE FROM cursors WHERE topic_id = :topic_id;

-- name: erase_topic_names
DELETE FROM agent_name_reservations WHERE topic_id = :topic_id;

-- name: erase_peers
DELETE FROM peers WHERE topic_id = :topic_id;

-- name: erase_numbers
DELETE FROM topic_seq WHERE topic_id = :topic_id;

-- name: erase_registrations
DELETE FROM registrations WHERE room_id = :room_id;

-- name: erase_reservations
DELETE FROM reservations WHERE room_id = :room_id;

-- name: erase_notices
DELETE FROM protocol_events WHERE room_id = :room_id;

-- name: erase_activity
DELETE FROM room_activity WHERE room_id = :room_id;

-- name: erase_checkpoint
DELETE FROM room_checkpoints WHERE room_id = :room_id;

-- name: erase_log
DELETE FROM room_events WHERE room_id = :room_id;

-- name: erase_members
DELETE FROM room_members WHERE room_id = :room_id;

-- name: erase_room
DELETE FROM path_rooms WHERE room_id = :room_id;

-- name: erase_progress
DELETE FROM index_progress WHERE topic_id = :topic_id;

-- name: erase_topic
DELETE FROM topics WHERE topic_id = :topic_id;
