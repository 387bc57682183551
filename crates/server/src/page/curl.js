// The request behind what is shown, as a command for a shell.

import { addressed } from "./api.js";
import { byId } from "./dom.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The command that sends a request, with the key if there is one. */
export function command({ path, body }) {
  const { url, headers } = addressed(path, true);
  const lines = [`curl -X POST ${quoted(url)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  lines.push(`-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/** Puts a command on the clipboard; where a browser does not allow that, shows it to be copied by hand. */
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
    byId("curl-said").textContent = "The browser does not let the page use the clipboard; the command is selected.";
    return;
  }
  place.hidden = true;
  byId("curl-said").textContent = headers.authorization ? "The command was copied, with your API key." : "The command was copied.";
}

/** What was said of an earlier search goes. */
export function forget() {
  byId("curl-text").hidden = true;
  byId("curl-said").textContent = "";
}
