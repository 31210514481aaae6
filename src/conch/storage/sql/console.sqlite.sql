-- name: engine_facts
SELECT 'SQLite ' || sqlite_version() AS engine,
  (SELECT c.page_count * s.page_size FROM pragma_page_count() c, pragma_page_size() s) AS size_bytes;
