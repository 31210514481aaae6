-- name: insert_words
INSERT INTO index_words (rowid, words) VALUES (:number, :words);

-- name: forget_words
INSERT INTO index_words (index_words) VALUES ('delete-all');

-- name: recent_with_words
SELECT m.number, substr(m.content_markdown, 1, :longest) AS text
FROM index_words CROSS JOIN messages m ON m.number = index_words.rowid
WHERE index_words MATCH :match
  AND index_words.rowid > (SELECT max(number) FROM messages) - :recent
  AND (:topic_id IS NULL OR m.topic_id = :topic_id)
  AND (:is_anyone OR m.sender_id IN :senders)
  AND (:message_type IS NULL OR m.message_type = :message_type)
  AND m.created_at BETWEEN :since AND :until
ORDER BY index_words.rowid DESC LIMIT :most;

-- name: all_with_words
SELECT m.number, substr(m.content_markdown, 1, :longest) AS text
FROM index_words CROSS JOIN messages m ON m.number = index_words.rowid
WHERE index_words MATCH :match
  AND (:topic_id IS NULL OR m.topic_id = :topic_id)
  AND (:is_anyone OR m.sender_id IN :senders)
  AND (:message_type IS NULL OR m.message_type = :message_type)
  AND m.created_at BETWEEN :since AND :until
ORDER BY index_words.rowid DESC LIMIT :most;

-- name: words_that_begin
-- Jump from each word to the next, because the vocabulary has a row for every occurrence of a word.
WITH RECURSIVE found (term) AS (
  SELECT (SELECT v.term FROM index_vocabulary v WHERE v.term >= :start LIMIT 1)
  UNION ALL
  SELECT (SELECT v.term FROM index_vocabulary v WHERE v.term >= found.term || char(1) LIMIT 1)
  FROM found WHERE found.term < :end LIMIT :most
)
SELECT term FROM found WHERE term < :end;

-- name: delete_words
-- The index has no texts, so deleting needs the words again.
INSERT INTO index_words (index_words, rowid, words) VALUES ('delete', :number, :words);
