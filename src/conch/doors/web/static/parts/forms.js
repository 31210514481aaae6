// Writing to agents: an answer in the row of its question, a message to a room or a topic.

import { html } from "../vendor/lit-html/lit-html.js";

/** Ctrl+Enter sends, as in most places where people write to each other. */
const sendKey = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
};

/** The box below a question that needs an answer. The person who asked it can end it instead. */
export function answerBox(entry, { shell, me }) {
  if (me && (entry.from?.agent_id ?? entry.agent_id) === me.agent_id) return ownQuestion(entry, shell);
  const send = (event) => submit(event, (text) =>
    shell.act("answer", { ...placeOf(entry), answer_markdown: text }, "Answered."));
  const who = me ? ` as ${me.label}` : "";
  return html`<form class="reply" @submit=${send}>
    <textarea name="text" required rows="1" placeholder="Answer${who}…" aria-label="Answer" data-answer @keydown=${sendKey}></textarea>
    <div class="row"><button class="button primary">Answer</button></div></form>`;
}

function ownQuestion(entry, shell) {
  const end = (name, said) => () => shell.act(name, placeOf(entry), said);
  return html`<div class="row reply"><button class="button" @click=${end("mark_answered", "Marked as answered.")}>Mark as answered</button>
    <button class="button quiet" @click=${end("cancel_question", "The question is cancelled.")}>Cancel the question</button></div>`;
}

/** Which question it is, and where it was asked. */
function placeOf(entry) {
  const question_id = entry.question?.question_id ?? entry.question_id ?? entry.message_id;
  return entry.topic_id ? { question_id, topic_id: entry.topic_id } : { question_id, room_id: entry.room_id };
}

/** Say something, or ask. `where` is `{room_id}` or `{topic_id}`. */
export function sayBox(where, { shell, me }, placeholder) {
  const send = (event) => submit(event, (text, button) => button === "ask"
    ? shell.act("ask", { ...where, question: text }, "Asked.")
    : shell.act("send", { ...where, content_markdown: text }, "Sent."));
  return html`<form class="say" @submit=${send}>
    <textarea name="text" required rows="2" placeholder=${placeholder} aria-label="Message" @keydown=${sendKey}></textarea>
    <div class="row"><button class="button primary" value="send">Send</button><button class="button" value="ask">Ask</button>
    <small>as ${me?.label ?? "you"} · everyone sees it</small></div></form>`;
}

/** Send what was written, and empty the box only if it arrived. */
async function submit(event, send) {
  event.preventDefault();
  const form = event.target, field = form.elements.text, text = field.value;
  if (!text.trim()) return;
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((button) => { button.disabled = true; });
  if ((await send(text, event.submitter?.value)) && field.value === text) field.value = "";
  buttons.forEach((button) => { button.disabled = false; });
}
