CREATE TABLE index_words (
  number BIGINT PRIMARY KEY,
  words TSVECTOR NOT NULL
);

CREATE INDEX index_words_words_idx ON index_words USING gin (words);
