// The API key. The page asks for it when the server requires one, and keeps it while the tab is
// open.

import { byId } from "./dom.js";

const KEPT = "warpseek-key";
let asking = null;

export const key = () => sessionStorage.getItem(KEPT);

/** Asks for a key; resolves to true if one was entered. Concurrent callers share the dialog. */
export function askForKey(why) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("key");
    byId("key-why").textContent = why;
    byId("key-text").value = "";
    byId("key-cancel").onclick = () => dialog.close("cancel");
    dialog.onclose = () => {
      const given = dialog.returnValue === "given";
      if (given) sessionStorage.setItem(KEPT, byId("key-text").value.trim());
      byId("key-text").value = "";
      asking = null;
      resolve(given);
    };
    byId("key-form").onsubmit = (event) => {
      event.preventDefault();
      dialog.close("given");
    };
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asking;
}
