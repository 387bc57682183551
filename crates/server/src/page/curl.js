// The request behind the hits, as a shell command.

import { addressed } from "./api.js";
import { byId } from "./dom.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns the command that sends a request, with the API key if there is one. */
export function command({ path, body }) {
  const { url, headers } = addressed(path, true);
  const lines = [`curl -X POST ${quoted(url)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  lines.push(`-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/**
 * Copies a command to the clipboard. If the browser does not allow it, shows the command to be
 * copied by hand.
 */
export async function copy(request) {
  const place = byId("curl-text");
  const text = command(request);
  const { headers } = addressed(request.path, true);
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    place.textContent = text;
    place.hidden = false;
    getSelection().selectAllChildren(place);
    place.focus();
    byId("curl-said").textContent = "The browser does not allow access to the clipboard; the command is selected.";
    return;
  }
  place.hidden = true;
  byId("curl-said").textContent = headers.authorization ? "The command was copied, with your API key." : "The command was copied.";
}

/** Removes the messages about an earlier search. */
export function forget() {
  byId("curl-text").hidden = true;
  byId("curl-said").textContent = "";
}
