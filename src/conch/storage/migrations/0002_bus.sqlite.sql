-- Words, not texts: what a word is, the search decides for every engine alike. The tokenizer only splits at spaces.
CREATE VIRTUAL TABLE index_words USING fts5 (
  words, content='', tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
);
