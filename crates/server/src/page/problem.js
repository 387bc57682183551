// Error messages of the page.

import { byId, el } from "./dom.js";

let again = null;

/**
 * Shows an error with a way to try again, or removes it if `error` is null. An error that is
 * already shown is not announced again.
 */
export function problem(error, retry) {
  const box = byId("problem");
  again = retry;
  if (!error) {
    box.replaceChildren();
    return;
  }
  const said = box.querySelector("p");
  if (said?.textContent === error.message && Boolean(box.querySelector("button")) === Boolean(retry)) return;
  const button = retry && el("button", { type: "button", class: "quiet", onclick: () => again() }, "Try again");
  box.replaceChildren(el("div", { class: "notice bad" }, el("p", {}, error.message), button));
}
