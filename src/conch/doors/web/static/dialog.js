// One dialog for everything that needs a question first: a reason, a recipient, or only a yes.

import { html, nothing, render } from "./vendor/lit-html/lit-html.js";

/**
 * Ask the person. Resolves with the values of the fields, or null if the person cancels.
 *
 * A field is `{name, label, kind: "text" | "secret" | "long" | "choice", value, choices: [[value, text]], optional, hint}`.
 */
export function question({ title, text = "", fields = [], yes, danger = false }) {
  const box = document.createElement("dialog");
  const opener = document.activeElement;
  document.body.append(box);
  return new Promise((resolve) => {
    const close = (values) => {
      box.close();
      box.remove();
      opener?.focus?.();
      resolve(values);
    };
    const send = (event) => {
      event.preventDefault();
      close(Object.fromEntries(new FormData(event.target)));
    };
    render(form({ title, text, fields, yes, danger, send, cancel: () => close(null) }), box);
    box.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    box.setAttribute("aria-labelledby", "question-title");
    box.showModal();
  });
}

const form = ({ title, text, fields, yes, danger, send, cancel }) => html`
  <form @submit=${send}>
    <h2 id="question-title">${title}</h2>
    ${text ? html`<p>${text}</p>` : nothing}
    ${fields.map(field)}
    <div class="row end">
      <button type="button" class="button quiet" @click=${cancel}>Cancel</button>
      <button class="button ${danger ? "danger" : "primary"}">${yes}</button>
    </div>
  </form>`;

const field = (each) => html`
  <label class="field"><span>${each.label}${each.optional ? html` <small>optional</small>` : nothing}</span>${input(each)}
  ${each.hint ? html`<small>${each.hint}</small>` : nothing}</label>`;

function input({ name, kind = "text", value = "", choices = [], optional = false }) {
  if (kind === "choice")
    return html`<select name=${name}>${choices.map(([id, text]) => html`<option value=${id} ?selected=${id === value}>${text}</option>`)}</select>`;
  if (kind === "long") return html`<textarea name=${name} rows="3" ?required=${!optional} .value=${value}></textarea>`;
  return html`<input name=${name} type=${kind === "secret" ? "password" : "text"} autocomplete="off" ?required=${!optional} .value=${value}>`;
}
