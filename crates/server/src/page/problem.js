// What went wrong, for whoever looks at the page.

import { byId, el } from "./dom.js";

/** Shows an error, and a way to try again; null takes it away. */
export function problem(error, again) {
  const box = byId("problem");
  if (!error) {
    box.replaceChildren();
    return;
  }
  const button = again && el("button", { type: "button", class: "quiet", onclick: again }, "Try again");
  box.replaceChildren(el("div", { class: "notice bad" }, el("p", {}, error.message), button));
}
