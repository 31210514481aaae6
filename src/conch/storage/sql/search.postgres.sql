-- A tsvector stores at most 255 positions of a word. A text with more gets the mark `has-repeats`, and a phrase then
-- matches it even if its words do not follow each other.

-- name: insert_words
WITH listed AS (
  SELECT word, position FROM unnest(string_to_array(:words, ' ')) WITH ORDINALITY AS listed (word, position)
)
INSERT INTO index_words (number, words)
SELECT :number, (string_agg('''' || word || ''':' || position, ' ')
  || CASE WHEN EXISTS (SELECT FROM listed GROUP BY word HAVING count(*) > 255) THEN ' ''has-repeats''' ELSE '' END
)::tsvector
FROM listed;

-- name: forget_words
DELETE FROM index_words;

-- The planner guesses badly how often a word occurs. These two queries leave it no choice, because LIMIT and OFFSET 0
-- keep it from moving a condition into the subquery. The first reads the newest rows, which is best for common words.

-- name: recent_with_words
SELECT m.number, substr(m.content_markdown, 1, :longest) AS text
FROM (SELECT number, words FROM index_words ORDER BY number DESC LIMIT :recent) w
CROSS JOIN LATERAL (SELECT * FROM messages WHERE messages.number = w.number OFFSET 0) m
WHERE w.words @@ CAST(:match AS tsquery)
  AND (CAST(:topic_id AS TEXT) IS NULL OR m.topic_id = :topic_id)
  AND (CAST(:is_anyone AS BOOLEAN) OR m.sender_id IN :senders)
  AND (CAST(:message_type AS TEXT) IS NULL OR m.message_type = :message_type)
  AND m.created_at BETWEEN :since AND :until
ORDER BY w.number DESC LIMIT :most;

-- The second uses the word index, which is best for rare words.

-- name: all_with_words
SELECT m.number, substr(m.content_markdown, 1, :longest) AS text
FROM (SELECT number FROM index_words WHERE words @@ CAST(:match AS tsquery) ORDER BY number DESC OFFSET 0) w
CROSS JOIN LATERAL (SELECT * FROM messages WHERE messages.number = w.number OFFSET 0) m
WHERE (CAST(:topic_id AS TEXT) IS NULL OR m.topic_id = :topic_id)
  AND (CAST(:is_anyone AS BOOLEAN) OR m.sender_id IN :senders)
  AND (CAST(:message_type AS TEXT) IS NULL OR m.message_type = :message_type)
  AND m.created_at BETWEEN :since AND :until
ORDER BY w.number DESC LIMIT :most;

-- name: delete_words
DELETE FROM index_words WHERE number = :number AND CAST(:words AS TEXT) IS NOT NULL;
