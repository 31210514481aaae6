// A part of the page that is drawn again only if one of its values has changed. So an event costs only what it changes,
// however much the page shows.

import { Directive, directive } from "./vendor/lit-html/directive.js";
import { noChange } from "./vendor/lit-html/lit-html.js";

export const kept = directive(class extends Directive {
  render(_, draw) { return draw(); }

  update(_, [values, draw]) {
    if (this.values?.every((value, index) => value === values[index])) return noChange;
    this.values = values;
    return draw();
  }
});
