-- What waits for an agent: one row with a column for each kind, which holds the rows found as JSON, or is NULL. Every
-- reply pays for this, so each kind first asks, from indexes alone, whether there is any. The engine runs the rest only
-- if there is. The rest stops counting at a limit, so that no flood makes it slow.
-- What one peer of an agent has read, the agent has read. What was shown is left out. But a question is counted until
-- it is answered, and a notice until it is accepted, or seen if it need not be accepted; only their lines are not
-- repeated. The condition on notices must be that of their index, word for word, so that the index can be used.

-- Whether `find_mail` may find anything: its own conditions, word for word. An engine that is near asks this first,
-- because it is much quicker to prepare and to ask.

-- name: mail_waits
SELECT 1 AS waits
WHERE EXISTS (
  SELECT 1 FROM peers p JOIN cursors c ON c.peer_id = p.peer_id JOIN topic_seq s ON s.topic_id = p.topic_id
  WHERE p.agent_id = :agent_id AND s.next_seq - 1 > c.last_seq
    AND (p.topic_id <> :topic_id OR s.next_seq - 1 > :through)
    AND s.next_seq - 1 - c.last_seq
      > COALESCE((SELECT o.own_seq FROM messages o WHERE o.sender_id = p.peer_id ORDER BY o.seq DESC LIMIT 1), 0)
      - COALESCE(
        (SELECT o.own_seq FROM messages o WHERE o.sender_id = p.peer_id AND o.seq <= c.last_seq
         ORDER BY o.seq DESC LIMIT 1),
        (SELECT o.own_seq - 1 FROM messages o WHERE o.sender_id = p.peer_id ORDER BY o.seq LIMIT 1), 0)
) OR EXISTS (
  SELECT 1 FROM peers p JOIN questions q ON q.topic_id = p.topic_id AND q.status = 'pending'
  WHERE p.agent_id = :agent_id
) OR EXISTS (
  SELECT 1 FROM protocol_events e WHERE e.to_agent_id = :agent_id
    AND (e.state = 'unread' OR (e.state = 'seen' AND e.payload_json LIKE '%"requires_ack": true%'))
) OR EXISTS (
  SELECT 1 FROM room_members m JOIN path_rooms p ON p.room_id = m.room_id AND p.owner = m.agent_id
  JOIN room_events g ON g.room_id = p.room_id AND g.turn_id = p.turn_id AND g.event_type IN ('claim', 'takeover')
  JOIN reservations r ON r.room_id = p.room_id AND r.state = 'active' AND r.agent_id <> p.owner
    AND r.created_at >= g.created_at
  WHERE m.agent_id = :agent_id
);

-- name: find_mail
SELECT
  CASE WHEN EXISTS (
    SELECT 1 FROM peers p JOIN cursors c ON c.peer_id = p.peer_id JOIN topic_seq s ON s.topic_id = p.topic_id
    WHERE p.agent_id = :agent_id AND s.next_seq - 1 > c.last_seq
      -- A reply that returns the last message of a topic leaves none of that topic unread.
      AND (p.topic_id <> :topic_id OR s.next_seq - 1 > :through)
      -- If there are more messages after the cursor than the peer itself sent, others sent some.
      AND s.next_seq - 1 - c.last_seq
        > COALESCE((SELECT o.own_seq FROM messages o WHERE o.sender_id = p.peer_id ORDER BY o.seq DESC LIMIT 1), 0)
        - COALESCE(
          (SELECT o.own_seq FROM messages o WHERE o.sender_id = p.peer_id AND o.seq <= c.last_seq
           ORDER BY o.seq DESC LIMIT 1),
          (SELECT o.own_seq - 1 FROM messages o WHERE o.sender_id = p.peer_id ORDER BY o.seq LIMIT 1), 0)
  ) THEN (
    SELECT CAST($json_list($json_row(
      kind, place, last_seq, number, id, sender, sender_agent_id, line, event_type
    )) AS TEXT) FROM (
      WITH mine AS MATERIALIZED (
        SELECT p.peer_id, p.topic_id, c.last_seq, s.next_seq - 1 AS highest
        FROM peers p JOIN cursors c ON c.peer_id = p.peer_id JOIN topic_seq s ON s.topic_id = p.topic_id
        WHERE p.agent_id = :agent_id
      ), unread AS MATERIALIZED (
        -- Messages to all that a listener has shown do not wait either.
        SELECT m.topic_id, m.highest, COALESCE(max(y.through), 0) AS shown_seq, max(
          CASE WHEN k.through > m.last_seq AND (m.topic_id <> :topic_id OR k.through > :through) THEN k.through
          WHEN m.topic_id = :topic_id AND m.last_seq < :through THEN :through ELSE m.last_seq END
        ) AS last_seq
        FROM mine m LEFT JOIN marks y ON y.agent_id = :agent_id AND y.kind = 'to_you' AND y.place = m.topic_id
        LEFT JOIN marks k ON k.agent_id = :agent_id AND k.kind = 'all' AND k.place = m.topic_id
          AND k.through <= y.through
        GROUP BY m.topic_id, m.highest
      ), names AS (
        SELECT n.topic_id, n.agent_name AS name FROM mine m JOIN agent_name_reservations n ON n.peer_id = m.peer_id
        UNION SELECT topic_id, :agent_id FROM mine
      ), to_you AS MATERIALIZED (
        SELECT u.topic_id,
          (SELECT count(*) FROM (
            SELECT 1 AS one FROM message_addressees a
            WHERE a.addressee = n.name AND a.topic_id = n.topic_id AND a.seq > u.last_seq AND a.seq > u.shown_seq
              AND a.sender_id NOT IN (SELECT peer_id FROM mine) AND a.topic_id || ' ' || a.seq NOT IN :brought
              -- A message to several names of the agent is one message.
              AND NOT EXISTS (
                SELECT 1 FROM names o JOIN message_addressees b ON b.addressee = o.name AND b.topic_id = o.topic_id
                WHERE o.topic_id = a.topic_id AND o.name < n.name AND b.seq = a.seq
              )
            LIMIT :most
          ) counted) AS number,
          (SELECT a.seq FROM message_addressees a
           WHERE a.addressee = n.name AND a.topic_id = n.topic_id AND a.seq > u.last_seq AND a.seq > u.shown_seq
             AND a.sender_id NOT IN (SELECT peer_id FROM mine) AND a.topic_id || ' ' || a.seq NOT IN :brought
           ORDER BY a.seq DESC LIMIT 1) AS newest
        FROM unread u JOIN names n ON n.topic_id = u.topic_id WHERE u.highest > u.last_seq
      )
      SELECT 'unread' AS kind, u.topic_id AS place, u.last_seq,
        u.highest - u.last_seq - COALESCE((
          SELECT sum(
            COALESCE((SELECT o.own_seq FROM messages o WHERE o.sender_id = m.peer_id ORDER BY o.seq DESC LIMIT 1), 0)
            - COALESCE(
              (SELECT o.own_seq FROM messages o WHERE o.sender_id = m.peer_id AND o.seq <= u.last_seq
               ORDER BY o.seq DESC LIMIT 1),
              (SELECT o.own_seq - 1 FROM messages o WHERE o.sender_id = m.peer_id ORDER BY o.seq LIMIT 1), 0)
          ) FROM mine m WHERE m.topic_id = u.topic_id
        ), 0) AS number, CAST(u.highest AS TEXT) AS id, NULL AS sender, NULL AS sender_agent_id, NULL AS line,
        NULL AS event_type
      FROM unread u WHERE u.highest > u.last_seq
      UNION ALL
      SELECT 'to_you', t.topic_id, m.number, t.number, m.message_id, p.name, p.agent_id,
        substr(m.content_markdown, 1, 1000), NULL
      FROM to_you t LEFT JOIN messages m ON m.topic_id = t.topic_id AND m.seq = t.newest
      LEFT JOIN peers p ON p.peer_id = m.sender_id
      WHERE t.newest IS NOT NULL
      UNION ALL
      SELECT 'shown', u.topic_id, u.last_seq, (
        SELECT count(*) FROM (
          SELECT DISTINCT a.seq FROM names n
          JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id
          WHERE n.topic_id = u.topic_id AND a.seq > u.last_seq AND a.seq <= u.shown_seq
            AND a.sender_id NOT IN (SELECT peer_id FROM mine) AND a.topic_id || ' ' || a.seq NOT IN :brought
          LIMIT :most
        ) counted
      ), NULL, NULL, NULL, NULL, NULL
      FROM unread u WHERE u.shown_seq > u.last_seq
      UNION ALL
      SELECT * FROM (
        -- A person asks the agent to hand over the stick.
        SELECT 'nudge', r.room_id, m.seq, 1, m.message_id, p.name, p.agent_id, substr(m.content_markdown, 1, 1000),
          m.message_type
        FROM unread u JOIN path_rooms r ON r.topic_id = u.topic_id AND r.owner = :agent_id
        JOIN room_events g ON g.room_id = r.room_id AND g.turn_id = r.turn_id AND g.event_type IN ('claim', 'takeover')
        JOIN messages m ON m.message_type = 'nudge' AND m.topic_id = u.topic_id AND m.seq > u.last_seq
          AND m.seq > u.shown_seq AND m.created_at >= g.created_at
        JOIN peers p ON p.peer_id = m.sender_id
        WHERE EXISTS (
          SELECT 1 FROM names n JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id
          WHERE n.topic_id = m.topic_id AND a.seq = m.seq
        )
        ORDER BY m.seq DESC LIMIT 1
      ) nudged
    ) found
  ) END AS messages,
  CASE WHEN EXISTS (
    SELECT 1 FROM peers p JOIN questions q ON q.topic_id = p.topic_id AND q.status = 'pending'
    WHERE p.agent_id = :agent_id
  ) THEN (
    SELECT CAST($json_list($json_row(
      kind, place, last_seq, number, id, sender, sender_agent_id, line, event_type
    )) AS TEXT) FROM (
      -- Only the 500 newest pending questions of each topic: many are never closed after they were answered.
      WITH mine AS MATERIALIZED (
        SELECT p.peer_id, p.topic_id FROM peers p JOIN cursors c ON c.peer_id = p.peer_id WHERE p.agent_id = :agent_id
      ), names AS (
        SELECT n.topic_id, n.agent_name AS name FROM mine m JOIN agent_name_reservations n ON n.peer_id = m.peer_id
        UNION SELECT topic_id, :agent_id FROM mine
      ), waiting AS MATERIALIZED (
        SELECT m.topic_id, m.seq,
          CASE WHEN m.seq > COALESCE(y.through, 0) AND q.question_id NOT IN :shown THEN m.seq END AS unshown
        FROM (SELECT DISTINCT topic_id FROM mine) t
        LEFT JOIN marks y ON y.agent_id = :agent_id AND y.kind = 'to_you' AND y.place = t.topic_id
        JOIN questions q ON q.topic_id = t.topic_id AND q.status = 'pending' AND q.asked_at >= COALESCE((
          SELECT x.asked_at FROM questions x WHERE x.topic_id = t.topic_id AND x.status = 'pending'
          ORDER BY x.asked_at DESC LIMIT 1 OFFSET 499
        ), 0)
        JOIN messages m ON m.message_id = q.question_id
        WHERE q.asked_by_id NOT IN (SELECT peer_id FROM mine) AND q.question_id NOT IN :ids
          AND NOT EXISTS (
            SELECT 1 FROM answers a
            WHERE a.question_id = q.question_id AND a.answered_by_id IN (SELECT peer_id FROM mine)
          )
          AND (
            m.metadata_json IS NULL OR m.metadata_json NOT LIKE '%"to"%'
            OR NOT EXISTS (SELECT 1 FROM message_addressees a WHERE a.topic_id = q.topic_id AND a.seq = m.seq)
            OR EXISTS (
              SELECT 1 FROM names n JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id
              WHERE n.topic_id = q.topic_id AND a.seq = m.seq
            )
          )
      )
      SELECT 'question' AS kind, t.topic_id AS place, m.number AS last_seq, t.number, m.message_id AS id, p.name AS sender,
        p.agent_id AS sender_agent_id,
        CASE WHEN t.unshown IS NOT NULL THEN substr(m.content_markdown, 1, 1000) END AS line, NULL AS event_type
      FROM (
        SELECT topic_id, count(*) AS number, max(unshown) AS unshown, max(seq) AS newest FROM waiting GROUP BY topic_id
      ) t
      LEFT JOIN messages m ON m.topic_id = t.topic_id AND m.seq = COALESCE(t.unshown, t.newest)
      LEFT JOIN peers p ON p.peer_id = m.sender_id
    ) found
  ) END AS questions,
  CASE WHEN EXISTS (
    SELECT 1 FROM protocol_events e WHERE e.to_agent_id = :agent_id
      AND (e.state = 'unread' OR (e.state = 'seen' AND e.payload_json LIKE '%"requires_ack": true%'))
  ) THEN (
    SELECT CAST($json_list($json_row(
      kind, place, last_seq, number, id, sender, sender_agent_id, line, event_type
    )) AS TEXT) FROM (
      WITH waiting AS MATERIALIZED (
        SELECT e.*, CASE WHEN e.state = 'unread' AND e.shown_at IS NULL THEN e.payload_json END AS line
        FROM protocol_events e
        WHERE e.to_agent_id = :agent_id AND e.event_id NOT IN :ids
          AND (e.state = 'unread' OR (e.state = 'seen' AND e.payload_json LIKE '%"requires_ack": true%'))
        ORDER BY e.number DESC LIMIT :most
      )
      SELECT * FROM (
        SELECT 'notice' AS kind, room_id AS place, number AS last_seq, (SELECT count(*) FROM waiting) AS number,
          event_id AS id, from_agent AS sender, from_agent_id AS sender_agent_id, line, event_type
        FROM waiting ORDER BY line IS NULL, last_seq DESC LIMIT 1
      ) newest
      UNION ALL
      SELECT * FROM (
        SELECT 'hand_over', e.room_id, e.number, 1, e.event_id, e.from_agent, e.from_agent_id, e.payload_json,
          e.event_type
        FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
        -- Not before the agent got the stick: an earlier turn has been handed over since.
        JOIN room_events g ON g.room_id = r.room_id AND g.turn_id = r.turn_id AND g.event_type IN ('claim', 'takeover')
          AND g.created_at <= COALESCE(e.latest_at, e.created_at)
        WHERE e.to_agent_id = :agent_id AND e.state = 'unread' AND e.event_type = 'BLOCKED' AND e.event_id NOT IN :ids
          AND e.shown_at IS NULL AND r.owner = :agent_id
        ORDER BY e.number DESC LIMIT 1
      ) blocked
    ) found
  ) END AS notices,
  CASE WHEN EXISTS (
    SELECT 1 FROM room_members m JOIN path_rooms p ON p.room_id = m.room_id AND p.owner = m.agent_id
    JOIN room_events g ON g.room_id = p.room_id AND g.turn_id = p.turn_id AND g.event_type IN ('claim', 'takeover')
    JOIN reservations r ON r.room_id = p.room_id AND r.state = 'active' AND r.agent_id <> p.owner
      AND r.created_at >= g.created_at
    WHERE m.agent_id = :agent_id
  ) THEN (
    SELECT CAST($json_list($json_row(
      kind, place, last_seq, number, id, sender, sender_agent_id, line, event_type
    )) AS TEXT) FROM (
      -- What others have reserved since the agent got the stick, in each room whose stick it holds. `last_seen_at`
      -- stands for the present, because the agent has just been seen: reservations that ended before it have lapsed.
      WITH beside AS MATERIALIZED (
        SELECT r.room_id, r.number FROM agents a JOIN room_members m ON m.agent_id = a.agent_id
        JOIN path_rooms p ON p.room_id = m.room_id AND p.owner = m.agent_id
        JOIN room_events g ON g.room_id = p.room_id AND g.turn_id = p.turn_id AND g.event_type IN ('claim', 'takeover')
        JOIN reservations r ON r.room_id = p.room_id AND r.state = 'active' AND r.agent_id <> p.owner
          AND r.created_at >= g.created_at AND r.expires_at > a.last_seen_at
        WHERE a.agent_id = :agent_id LIMIT :most
      )
      SELECT 'reserved' AS kind, r.room_id AS place, r.number AS last_seq, t.number, r.reservation_id AS id,
        COALESCE(m.name, r.agent_id) AS sender, r.agent_id AS sender_agent_id,
        COALESCE(r.given, r.scope) AS line, NULL AS event_type
      FROM (SELECT room_id, count(*) AS number, max(number) AS newest FROM beside GROUP BY room_id) t
      JOIN reservations r ON r.number = t.newest
      LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
    ) found
  ) END AS reservations;
