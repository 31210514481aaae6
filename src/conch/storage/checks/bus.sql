-- Topics, peers, names, cursors and messages.

-- Messages up to `pruned_seq` were deleted by `conch db prune`. Those after it have no gaps.

-- check: messages
-- Topic {topic_id} has {count} messages, numbered from {lowest} to {last}. The first missing seq is {missing}.
SELECT s.topic_id, s.count, n.pruned_seq + 1 AS lowest, s.last, CASE WHEN s.first > n.pruned_seq + 1 THEN n.pruned_seq + 1 ELSE (
  SELECT min(m.seq) + 1 FROM messages m
  WHERE m.topic_id = s.topic_id
    AND NOT EXISTS (SELECT 1 FROM messages n WHERE n.topic_id = m.topic_id AND n.seq = m.seq + 1)
) END AS missing
FROM (
  SELECT topic_id, count(*) AS count, min(seq) AS first, max(seq) AS last FROM messages GROUP BY topic_id
) s JOIN topic_seq n ON n.topic_id = s.topic_id
WHERE s.first > n.pruned_seq + 1 OR (s.first = n.pruned_seq + 1 AND s.last - n.pruned_seq <> s.count);

-- check: messages
-- Message {seq} of topic {topic_id} is there, but the messages up to {pruned_seq} were pruned.
SELECT m.topic_id, min(m.seq) AS seq, n.pruned_seq
FROM topic_seq n JOIN messages m ON m.topic_id = n.topic_id AND m.seq <= n.pruned_seq
GROUP BY m.topic_id, n.pruned_seq;

-- check: topic_seq
-- Topic {topic_id} would number its next message {next_seq}, but its last message has seq {last}.
SELECT t.topic_id, s.next_seq, COALESCE(m.last, s.pruned_seq) AS last
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id
LEFT JOIN (SELECT topic_id, max(seq) AS last FROM messages GROUP BY topic_id) m ON m.topic_id = t.topic_id
WHERE s.next_seq <> COALESCE(m.last, s.pruned_seq) + 1 OR s.pruned_seq < 0;

-- check: topic_seq
-- Topic {topic_id} has no row in topic_seq, so it can take no message.
SELECT t.topic_id FROM topics t LEFT JOIN topic_seq s ON s.topic_id = t.topic_id WHERE s.topic_id IS NULL;

-- check: topics
-- Topic {topic_id} is open and has a reason for being closed.
SELECT topic_id FROM topics WHERE status = 'open' AND close_reason IS NOT NULL;

-- check: topics
-- Topic {topic_id} has no name.
SELECT topic_id FROM topics WHERE name = '';

-- check: messages
-- Message {message_id} of topic {topic_id} has no sender.
SELECT message_id, topic_id FROM messages WHERE sender_id IS NULL;

-- check: messages
-- Message {message_id} of topic {topic_id} is from peer {sender_id}, a peer of another topic.
SELECT m.message_id, m.topic_id, m.sender_id
FROM messages m JOIN peers p ON p.peer_id = m.sender_id WHERE p.topic_id <> m.topic_id;

-- check: messages
-- Message {message_id} of topic {topic_id} replies to {reply_to}, which is not a message of this topic.
SELECT m.message_id, m.topic_id, m.reply_to
FROM messages m JOIN topic_seq s ON s.topic_id = m.topic_id
LEFT JOIN messages r ON r.message_id = m.reply_to AND r.topic_id = m.topic_id
WHERE m.reply_to IS NOT NULL AND r.message_id IS NULL AND s.pruned_seq = 0;

-- check: messages
-- Message {message_id} of topic {topic_id} replies to {reply_to}, which was sent later.
SELECT m.message_id, m.topic_id, m.reply_to
FROM messages m JOIN messages r ON r.message_id = m.reply_to AND r.topic_id = m.topic_id
WHERE r.seq >= m.seq;

-- check: messages
-- Message {message_id} of topic {topic_id} has no message_id or no type.
SELECT message_id, topic_id FROM messages WHERE message_id = '' OR message_type = '';

-- check: messages
-- Message {message_id} of topic {topic_id} and the next one are numbered in the wrong order.
SELECT m.message_id, m.topic_id
FROM messages m JOIN messages n ON n.topic_id = m.topic_id AND n.seq = m.seq + 1
WHERE n.number <= m.number;

-- check: messages
-- Message {message_id} of topic {topic_id} counts as message {own_seq} of its sender, but it is message {place}.
SELECT message_id, topic_id, own_seq, place FROM (
  SELECT m.message_id, m.topic_id, m.own_seq, row_number() OVER (PARTITION BY m.sender_id ORDER BY m.seq)
    + CASE WHEN s.pruned_seq = 0 THEN 0 ELSE min(m.own_seq) OVER (PARTITION BY m.sender_id) - 1 END AS place
  FROM messages m JOIN topic_seq s ON s.topic_id = m.topic_id WHERE m.sender_id IS NOT NULL
) counted
WHERE own_seq <> place;

-- check: message_addressees
-- Message {seq} of topic {topic_id} is listed as one to {addressee}, but there is no such message from that sender.
SELECT a.seq, a.topic_id, a.addressee
FROM message_addressees a
LEFT JOIN messages m ON m.topic_id = a.topic_id AND m.seq = a.seq AND m.sender_id = a.sender_id
WHERE m.seq IS NULL;

-- check: message_addressees addressee
-- Message {seq} of topic {topic_id} is listed as one to {addressee}, but its metadata does not say so.
SELECT a.seq, a.topic_id, a.addressee, m.metadata_json
FROM message_addressees a JOIN messages m ON m.topic_id = a.topic_id AND m.seq = a.seq;

-- check: message_addressees addressees
-- Message {seq} of topic {topic_id} is not listed for every agent that its metadata names, so it is missing from their mail.
SELECT m.seq, m.topic_id, m.metadata_json, (
  SELECT count(*) FROM message_addressees a WHERE a.topic_id = m.topic_id AND a.seq = m.seq
) AS listed
FROM messages m WHERE replace(m.metadata_json, '"to"', '') <> m.metadata_json;

-- check: messages json
-- The metadata of message {message_id} is not a JSON object.
SELECT message_id, metadata_json AS json FROM messages WHERE metadata_json IS NOT NULL;

-- check: topics json
-- The metadata of topic {topic_id} is not a JSON object.
SELECT topic_id, metadata_json AS json FROM topics WHERE metadata_json IS NOT NULL;

-- check: peers
-- Peer {peer_id} of topic {topic_id} has an is_own that is neither 0 nor 1, or is an agent's own peer without an agent.
SELECT peer_id, topic_id FROM peers WHERE is_own NOT IN (0, 1) OR (is_own = 1 AND agent_id IS NULL);

-- check: peers
-- Peer {peer_id} of topic {topic_id} has no name.
SELECT peer_id, topic_id FROM peers WHERE name = '';

-- check: peers
-- Peer {peer_id} of topic {topic_id} is the own peer of {agent_id}, but it has no cursor and cannot read.
SELECT p.peer_id, p.topic_id, p.agent_id
FROM peers p LEFT JOIN cursors c ON c.peer_id = p.peer_id WHERE p.is_own = 1 AND c.peer_id IS NULL;

-- An imported peer is as old as its topic. It belongs to no agent, and may have no token, until an agent takes its name.

-- check: peers
-- Peer {peer_id} of topic {topic_id} can read, but it belongs to no agent.
SELECT p.peer_id, p.topic_id
FROM peers p JOIN cursors c ON c.peer_id = p.peer_id JOIN topics t ON t.topic_id = p.topic_id
WHERE p.agent_id IS NULL AND (t.mode <> 'new' OR p.created_at <> t.created_at);

-- check: peers
-- Peer {peer_id} of topic {topic_id} has a damaged token, or needs one and has none.
SELECT p.peer_id, p.topic_id
FROM peers p LEFT JOIN cursors c ON c.peer_id = p.peer_id
WHERE length(p.reclaim_token_hash) <> 64 OR ltrim(p.reclaim_token_hash, '0123456789abcdef') <> ''
  OR (p.reclaim_token_hash IS NULL AND p.is_own = 0 AND p.agent_id IS NOT NULL AND c.peer_id IS NOT NULL);

-- check: peers
-- Peer {peer_id} of topic {topic_id} has the same name, {name}, and the same token as another peer there.
SELECT max(peer_id) AS peer_id, topic_id, name FROM peers WHERE reclaim_token_hash IS NOT NULL
GROUP BY topic_id, name, reclaim_token_hash HAVING count(*) > 1;

-- check: agent_name_reservations
-- The name {agent_name} of topic {topic_id} means peer {peer_id}, a peer of another topic.
SELECT n.agent_name, n.topic_id, n.peer_id
FROM agent_name_reservations n JOIN peers p ON p.peer_id = n.peer_id WHERE p.topic_id <> n.topic_id;

-- check: agent_name_reservations
-- The name {agent_name} of topic {topic_id} means peer {peer_id}, which has no cursor and cannot read.
SELECT n.agent_name, n.topic_id, n.peer_id
FROM agent_name_reservations n LEFT JOIN cursors c ON c.peer_id = n.peer_id WHERE c.peer_id IS NULL;

-- check: agent_name_reservations
-- Peer {peer_id} reads topic {topic_id} as {name}, but that name does not mean this peer.
SELECT p.peer_id, p.topic_id, p.name
FROM cursors c JOIN peers p ON p.peer_id = c.peer_id
LEFT JOIN agent_name_reservations n ON n.agent_name = p.name AND n.topic_id = p.topic_id AND n.peer_id = p.peer_id
WHERE n.peer_id IS NULL;

-- check: cursors
-- The cursor of peer {peer_id} is on topic {topic_id}, which is not the topic of the peer.
SELECT c.peer_id, c.topic_id FROM cursors c JOIN peers p ON p.peer_id = c.peer_id WHERE c.topic_id <> p.topic_id;

-- check: cursors
-- The cursor of peer {peer_id} is at {last_seq}, but topic {topic_id} has the messages {first} to {last}.
SELECT c.peer_id, c.last_seq, c.topic_id, s.pruned_seq + 1 AS first, s.next_seq - 1 AS last
FROM cursors c JOIN topic_seq s ON s.topic_id = c.topic_id
WHERE c.last_seq < s.pruned_seq OR c.last_seq >= s.next_seq;

-- check: cursors
-- The cursor of peer {peer_id} was reset {resets} times, which is impossible.
SELECT peer_id, resets FROM cursors WHERE resets < 0;

-- What hooks and listeners have shown.

-- check: marks
-- {agent_id} was shown topic {place} up to message {through}, but the topic is missing or ends at {last}.
SELECT k.agent_id, k.place, k.through, COALESCE(s.next_seq, 1) - 1 AS last
FROM marks k LEFT JOIN topic_seq s ON s.topic_id = k.place
WHERE k.kind <> 'takeover' AND (k.through < 0 OR k.through >= COALESCE(s.next_seq, 0));

-- check: marks
-- {agent_id} was offered a takeover in turn {through} of room {place}, but that room has not reached this turn.
SELECT k.agent_id, k.place, k.through
FROM marks k LEFT JOIN path_rooms r ON r.room_id = k.place
WHERE k.kind = 'takeover' AND (k.through < 0 OR k.through > COALESCE(r.turn_id, -1));

-- check: listeners
-- The listener of {agent_id} records only part of its process.
SELECT agent_id FROM listeners
WHERE (pid IS NULL) <> (host_id IS NULL) OR (pid IS NULL) <> (boot_id IS NULL)
  OR (pid IS NULL) <> (process_started_at IS NULL);

-- check: listeners
-- The listener of {agent_id} expires before it has begun.
SELECT agent_id, started_at, expires_at FROM listeners WHERE expires_at < started_at;

-- Questions and answers.

-- check: questions
-- Question {question_id} of topic {topic_id} has no message of type question there.
SELECT q.question_id, q.topic_id
FROM questions q LEFT JOIN messages m
  ON m.message_id = q.question_id AND m.topic_id = q.topic_id AND m.message_type = 'question'
WHERE m.message_id IS NULL;

-- check: questions
-- Message {message_id} of topic {topic_id} is a question, but it has no row in questions.
SELECT m.message_id, m.topic_id
FROM messages m LEFT JOIN questions q ON q.question_id = m.message_id
WHERE m.message_type = 'question' AND q.question_id IS NULL;

-- check: questions
-- Question {question_id} of topic {topic_id} was asked by no peer of this topic.
SELECT q.question_id, q.topic_id
FROM questions q LEFT JOIN peers p ON p.peer_id = q.asked_by_id AND p.topic_id = q.topic_id
WHERE p.peer_id IS NULL;

-- check: questions
-- Question {question_id} is {status} and has a reason for being cancelled.
SELECT question_id, status FROM questions WHERE status <> 'cancelled' AND cancel_reason IS NOT NULL;

-- check: questions
-- Question {question_id} and its message have different times.
SELECT q.question_id, q.asked_at, m.created_at
FROM questions q JOIN messages m ON m.message_id = q.question_id WHERE q.asked_at <> m.created_at;

-- check: answers
-- Answer {answer_id} to question {question_id} has no message of type answer that replies to that question.
SELECT a.answer_id, a.question_id
FROM answers a LEFT JOIN messages m
  ON m.message_id = a.answer_id AND m.message_type = 'answer' AND m.reply_to = a.question_id
WHERE m.message_id IS NULL;

-- check: answers
-- Answer {answer_id} to question {question_id} is from a peer of another topic.
SELECT a.answer_id, a.question_id
FROM answers a JOIN questions q ON q.question_id = a.question_id
LEFT JOIN peers p ON p.peer_id = a.answered_by_id AND p.topic_id = q.topic_id
WHERE p.peer_id IS NULL;

-- check: answers
-- Answer {answer_id} and its message have different times.
SELECT a.answer_id, a.answered_at, m.created_at
FROM answers a JOIN messages m ON m.message_id = a.answer_id WHERE a.answered_at <> m.created_at;

-- A pending question counts the first answer of every other peer. An adoption may have moved the question to another
-- peer, so only questions that still belong to their sender are looked at.

-- check: answers
-- Message {message_id} answers the pending question {question_id}, but no answer of its sender is counted.
SELECT m.message_id, q.question_id
FROM questions q
JOIN messages asked ON asked.message_id = q.question_id AND asked.sender_id = q.asked_by_id
JOIN messages m ON m.topic_id = q.topic_id AND m.reply_to = q.question_id AND m.message_type = 'answer'
WHERE q.status = 'pending' AND m.sender_id <> q.asked_by_id AND NOT EXISTS (
  SELECT 1 FROM answers a JOIN messages counted ON counted.message_id = a.answer_id
  WHERE a.question_id = q.question_id
    AND (a.answered_by_id = m.sender_id OR counted.sender_id = m.sender_id)
);

-- check: agent_name_reservations
-- Peer {peer_id} of topic {topic_id} has an empty name.
SELECT topic_id, peer_id FROM agent_name_reservations WHERE agent_name = '';
