// Requests to the server's own API, which is beside the page.

import { askForKey, key } from "./key.js";

const BASE = new URL("../v1/", document.baseURI);

/** What the server, or the way to it, has refused. */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export const isAborted = (error) => error.name === "AbortError";

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body, signal) => send("POST", path, body, signal);

/** The path of an index, or of something in it. */
export const inIndex = (index, ...parts) => ["indexes", index, ...parts].map(encodeURIComponent).join("/");

async function send(method, path, body, signal) {
  for (;;) {
    const used = key();
    const headers = {};
    if (used) headers.authorization = `Bearer ${used}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    let response;
    try {
      response = await fetch(new URL(path, BASE), { method, headers, body: JSON.stringify(body), signal });
    } catch (error) {
      if (isAborted(error)) throw error;
      throw new ApiError(0, "The server cannot be reached.");
    }
    if (response.status === 401) {
      // Another request may have got a key in the meantime.
      if (key() !== used) continue;
      const why = used ? "The server does not know this key." : "This server asks for a key.";
      if (await askForKey(why)) continue;
      throw new ApiError(401, "This server needs an API key.");
    }
    const answer = await response.json().catch((error) => {
      if (isAborted(error)) throw error;
      throw new ApiError(response.status, `The answer of the server could not be read (${response.status}).`);
    });
    if (!response.ok) throw new ApiError(response.status, answer.error?.reason ?? `The server answered ${response.status}.`);
    return answer;
  }
}
