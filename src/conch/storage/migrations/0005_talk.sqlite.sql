INSERT INTO index_words (index_words) VALUES ('delete-all');

-- The words of the index in their order: those that begin alike are found one by one, without reading where they stand.
CREATE VIRTUAL TABLE index_vocabulary USING fts5vocab (index_words, instance);
