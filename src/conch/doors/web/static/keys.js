// Keyboard shortcuts. `?` lists them; a page adds its own.

import { html, render } from "./vendor/lit-html/lit-html.js";

const GO = { r: ["/", "rooms"], i: ["/items", "work items"], t: ["/topics", "topics"], h: ["/health", "health"], s: ["/search", "search"] };
const SEQUENCE = 1200; // milliseconds between `g` and the second key

export class Keys {
  constructor(shell) {
    this.shell = shell;
    this.lastG = 0;
    document.addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("click", closeMenus);
  }

  pressed(event) {
    if (event.key === "Escape") return this.escape(event);
    const isTyping = event.target.closest?.("input, textarea, select, dialog[open]");
    if (isTyping || event.metaKey || event.ctrlKey || event.altKey) return;
    if (this.run(event.key)) event.preventDefault();
  }

  run(key) {
    if (this.lastG && Date.now() - this.lastG < SEQUENCE && key in GO) {
      this.lastG = 0;
      this.shell.go(GO[key][0]);
      return true;
    }
    this.lastG = key === "g" ? Date.now() : 0;
    if (key === "/") return focusOn("#search");
    if (key === "?") return this.help();
    const own = this.shell.page?.keys?.[key];
    own?.run();
    return Boolean(own);
  }

  escape(event) {
    if (document.querySelector("dialog[open]")) return;
    if (event.target.matches?.("input, textarea")) event.target.blur();
    else if (document.querySelector("details.more[open]")) closeMenus(event);
    else if (this.shell.panel) this.shell.closePanel();
  }

  help() {
    const own = Object.entries(this.shell.page?.keys ?? {}).map(([key, { text }]) => [key, text]);
    const rows = [["/", "search"], ["?", "show this list"], ["Esc", "close the panel or leave a field"], ...own,
      ...Object.entries(GO).map(([key, [, text]]) => [`g ${key}`, `go to ${text}`])];
    const box = document.createElement("dialog");
    box.setAttribute("aria-label", "Keyboard shortcuts");
    box.addEventListener("close", () => box.remove());
    render(html`<h2>Keyboard</h2><dl class="facts">${rows.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
      <div class="row end"><button class="button" @click=${() => box.close()}>Close</button></div>`, box);
    document.body.append(box);
    box.showModal();
    return true;
  }
}

/** A menu closes when the person clicks elsewhere. */
function closeMenus(event) {
  for (const menu of document.querySelectorAll("details.more[open]")) {
    if (event.key !== "Escape" && menu.contains(event.target) && !event.target.closest(".menu")) continue;
    menu.open = false;
    if (event.key === "Escape") menu.querySelector("summary").focus();
  }
}

function focusOn(selector) {
  const field = document.querySelector(selector);
  field?.focus();
  field?.select?.();
  return Boolean(field);
}
