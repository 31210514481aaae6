INSERT INTO index_words (index_words) VALUES ('delete-all');

-- The words of the index in order, to find those with a common prefix without reading their positions.
CREATE VIRTUAL TABLE index_vocabulary USING fts5vocab (index_words, instance);
