// Requests to the server's own API, which is beside the page.

import { askForKey, key } from "./key.js";

const BASE = new URL("../v1/", document.baseURI);
const ALIVE = new URL("../livez", document.baseURI);
/** Milliseconds after which a server that has not answered is asked whether it is there, and that it has to say so. */
const SLOW = 1500;
const PATIENCE = 2000;

/** What the server, or the way to it, has refused. The status is 0 if there was no answer. */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export const isAborted = (error) => error.name === "AbortError";

/** Whether a server that is starting, or gone, may answer the same request in a moment. */
export const mayComeBack = (error) => error.status === 0 || error.status === 503;

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body, signal) => send("POST", path, body, signal);

/** The path of an index, or of something in it. */
export const inIndex = (index, ...parts) => ["indexes", index, ...parts].map(encodeURIComponent).join("/");

/** The address of a path, and the headers that a request for it has. */
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
      // Another request may have got a key in the meantime.
      if (key() !== used) continue;
      const why = used ? "The server does not know this key." : "This server asks for a key.";
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
    throw new ApiError(response.status, `The answer of the server could not be read (${response.status}).`);
  });
  return { response, answer };
}

/** Gives a request up when the server is not there any more; one that is at work may take its time. */
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
