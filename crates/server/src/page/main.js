// The views and the navigation between them, by the part of the address after `#/`.

import { byId } from "./dom.js";
import * as indexes from "./indexes.js";
import * as load from "./load.js";
import { problem } from "./problem.js";
import * as search from "./search.js";

const VIEWS = { search, indexes, load };
let shown = null;

function route() {
  const [name, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  if (location.hash === "#main") return;
  const view = name in VIEWS ? name : "search";
  if (shown !== view) {
    if (shown) {
      VIEWS[shown].leave?.();
      problem(null);
    }
    for (const other of Object.keys(VIEWS)) byId(other).hidden = other !== view;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${view[0].toUpperCase()}${view.slice(1)} · warpseek`;
  }
  const before = shown;
  shown = view;
  VIEWS[view].enter(new URLSearchParams(parameters ?? ""), before !== view);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, dialog");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (shown !== "search") location.hash = "#/search";
  // The view is shown once the address has changed.
  setTimeout(() => byId("query").focus());
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
addEventListener("hashchange", route);
route();
