// Requests to the server's `/v1` API, which is next to the page.

import { askForKey, key } from "./key.js";

const BASE = new URL("../v1/", document.baseURI);
const ALIVE = new URL("../livez", document.baseURI);
/**
 * Milliseconds after which the page checks that a slow server is alive, and time limit of the
 * check.
 */
const SLOW = 1500;
const PATIENCE = 2000;

/**
 * An error reported by the server, or a failure to reach it. The status is 0 if there was no
 * answer.
 */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export const isAborted = (error) => error.name === "AbortError";

/** Returns true if the same request may succeed soon, because the server is starting or gone. */
export const mayComeBack = (error) => error.status === 0 || error.status === 503;

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body, signal) => send("POST", path, body, signal);

/** Returns the path of an index, or of something in it. */
export const inIndex = (index, ...parts) => ["indexes", index, ...parts].map(encodeURIComponent).join("/");

/** Returns the URL of a path, and the headers that a request for it needs. */
export function addressed(path, hasBody) {
  const headers = {};
  const used = key();
  if (used) headers.authorization = `Bearer ${used}`;
  if (hasBody) headers["content-type"] = "application/json";
  return { url: new URL(path, BASE).href, headers, used };
}

async function send(method, path, body, signal) {
  for (;;) {
    const { url, headers, used } = addressed(path, body !== undefined);
    const { response, answer } = await watched((signal) => answered(url, { method, headers, body: JSON.stringify(body), signal }), signal);
    if (response.status === 401) {
      // Another request may have received a key in the meantime.
      if (key() !== used) continue;
      const why = used ? "The server does not accept this key." : "This server requires a key.";
      if (await askForKey(why)) continue;
      throw new ApiError(401, "This server needs an API key.");
    }
    if (!response.ok) throw new ApiError(response.status, answer.error?.reason ?? `The server answered ${response.status}.`);
    return answer;
  }
}

async function answered(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ApiError(0, "The server does not answer.");
  }
  const answer = await response.json().catch((error) => {
    if (isAborted(error)) throw error;
    throw new ApiError(response.status, `The server's answer could not be read (${response.status}).`);
  });
  return { response, answer };
}

/**
 * Aborts a request when the server is gone. A server that is alive may take as long as it needs.
 */
async function watched(ask, signal) {
  const own = new AbortController();
  const giveUp = () => own.abort();
  if (signal?.aborted) giveUp();
  signal?.addEventListener("abort", giveUp);
  let isGone = false;
  let timer = setTimeout(async function look() {
    const isAlive = await fetch(ALIVE, { cache: "no-store", signal: AbortSignal.any([own.signal, AbortSignal.timeout(PATIENCE)]) }).then(() => true, () => false);
    if (own.signal.aborted || timer === null) return;
    if (isAlive) {
      timer = setTimeout(look, SLOW);
      return;
    }
    isGone = true;
    giveUp();
  }, SLOW);
  try {
    return await ask(own.signal);
  } catch (error) {
    throw isGone ? new ApiError(0, "The server does not answer.") : error;
  } finally {
    clearTimeout(timer);
    timer = null;
    signal?.removeEventListener("abort", giveUp);
  }
}
