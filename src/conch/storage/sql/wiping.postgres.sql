-- name: note_erased
-- PostgreSQL's numbers have gaps anyway, so there is nothing to note.
SELECT 1;
