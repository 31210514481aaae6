-- name: insert_words
INSERT INTO index_words (number, words)
SELECT :number, string_agg('''' || word || ''':' || position, ' ')::tsvector
FROM unnest(string_to_array(:words, ' ')) WITH ORDINALITY AS listed (word, position);

-- name: newest_with_words
SELECT m.number, substr(m.content_markdown, 1, :longest) AS text
FROM index_words w JOIN messages m ON m.number = w.number
WHERE w.words @@ CAST(:match AS tsquery)
  AND (CAST(:topic_id AS TEXT) IS NULL OR m.topic_id = :topic_id)
  AND (CAST(:sender AS TEXT) IS NULL OR m.sender = :sender)
  AND (CAST(:message_type AS TEXT) IS NULL OR m.message_type = :message_type)
  AND m.created_at BETWEEN :since AND :until
ORDER BY w.number DESC LIMIT :most;
