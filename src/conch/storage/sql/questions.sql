-- name: insert_question
INSERT INTO questions (question_id, topic_id, asked_by_id, asked_at)
VALUES (:question_id, :topic_id, :asked_by_id, :now);

-- name: find_question
SELECT q.*, p.name AS asked_by, p.agent_id AS asked_by_agent_id
FROM questions q LEFT JOIN peers p ON p.peer_id = q.asked_by_id WHERE q.question_id = :question_id;

-- name: questions_by_id
SELECT q.*, p.name AS asked_by, p.agent_id AS asked_by_agent_id
FROM questions q LEFT JOIN peers p ON p.peer_id = q.asked_by_id WHERE q.question_id IN :question_ids;

-- name: end_question
UPDATE questions SET status = :status, cancel_reason = :cancel_reason
WHERE question_id = :question_id AND status = 'pending';

-- name: hand_over_questions
UPDATE questions SET asked_by_id = :heir_id WHERE topic_id = :topic_id AND asked_by_id = :peer_id;

-- name: insert_answer
INSERT INTO answers (question_id, answered_by_id, answer_id, answered_at)
VALUES (:question_id, :answered_by_id, :answer_id, :now)
ON CONFLICT (question_id, answered_by_id) DO NOTHING;

-- name: hand_over_answers
UPDATE answers SET answered_by_id = :heir_id
WHERE answered_by_id = :peer_id AND NOT EXISTS (
  SELECT 1 FROM answers own WHERE own.question_id = answers.question_id AND own.answered_by_id = :heir_id
);

-- name: find_answer
SELECT answer_id FROM answers WHERE question_id = :question_id AND answered_by_id = :peer_id;

-- name: answers_to
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM answers a JOIN messages m ON m.message_id = a.answer_id LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE a.question_id = :question_id AND m.seq > :after ORDER BY m.seq LIMIT :limit;

-- name: count_answers
SELECT count(*) AS answers_count FROM answers WHERE question_id = :question_id;

-- name: answerable_questions
SELECT q.question_id, (SELECT p.name FROM peers p WHERE p.peer_id = q.asked_by_id) AS asked_by, q.asked_at,
  m.content_markdown AS question_text, m.seq,
  (SELECT p.agent_id FROM peers p WHERE p.peer_id = q.asked_by_id) AS asked_by_agent_id
FROM questions q JOIN messages m ON m.message_id = q.question_id
WHERE q.topic_id = :topic_id AND q.status = 'pending' AND q.asked_by_id <> :peer_id
  AND NOT EXISTS (SELECT 1 FROM answers a WHERE a.question_id = q.question_id AND a.answered_by_id = :peer_id)
  AND m.seq > :after
ORDER BY m.seq LIMIT :limit;

-- name: questions_on_topic
SELECT q.question_id, q.topic_id, p.name AS asked_by, p.agent_id AS asked_by_agent_id, q.asked_at,
  q.status, q.cancel_reason, m.content_markdown AS question_text, m.seq,
  (SELECT count(*) FROM answers a WHERE a.question_id = q.question_id) AS answers_count
FROM questions q JOIN messages m ON m.message_id = q.question_id LEFT JOIN peers p ON p.peer_id = q.asked_by_id
WHERE q.topic_id = :topic_id AND q.status IN :statuses AND m.seq < :before
ORDER BY m.seq DESC LIMIT :limit;
