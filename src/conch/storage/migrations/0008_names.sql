-- What each name looks like, so that no agent can take a name that passes for another. The tenth migration fills it in.

CREATE TABLE name_skeletons (
  skeleton TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (skeleton, name)
);
