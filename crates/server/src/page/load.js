// The load view: the state of the server, updated every second while the view is visible.

import { get, isAborted } from "./api.js";
import { chart } from "./chart.js";
import { byId } from "./dom.js";
import { bytes, count, duration, ms, plural, short } from "./format.js";
import { problem } from "./problem.js";

const EVERY = 1000;

let charts = null;
let isShown = false;
let isPaused = false;
let timer = 0;
let running = null;
let last = null;

export function enter() {
  charts ??= make();
  isShown = true;
  ask();
}

export function leave() {
  isShown = false;
  clearTimeout(timer);
  running?.abort();
}

function make() {
  const one = (name) => [{ name, style: "first" }];
  const made = {
    rate: chart("Searches", one("per second"), short),
    latency: chart("Latency of searches", [{ name: "p50", style: "first" }, { name: "p95", style: "second" }, { name: "p99", style: "third" }], ms),
    queue: chart("Requests", [{ name: "waiting", style: "third" }, { name: "at work", style: "first" }], count),
    gpu: chart("GPU memory", one("in use"), bytes),
    caches: chart("Cache hits", one("per second"), short),
  };
  // Hidden until the server reports a GPU.
  made.gpu.card.hidden = true;
  byId("load-cards").replaceChildren(...Object.values(made).map(({ card }) => card));
  byId("load-pause").addEventListener("click", () => {
    isPaused = !isPaused;
    byId("load-pause").textContent = isPaused ? "Resume" : "Pause";
    byId("load-pause").setAttribute("aria-pressed", String(isPaused));
    ask();
  });
  document.addEventListener("visibilitychange", ask);
  return made;
}

async function ask() {
  clearTimeout(timer);
  running?.abort();
  if (!isShown || isPaused || document.hidden) return;
  const mine = (running = new AbortController());
  try {
    const status = await get("status?indexes=false", mine.signal);
    if (mine.signal.aborted) return;
    problem(null);
    add(status);
  } catch (error) {
    if (isAborted(error)) return;
    problem(error, ask);
    addNothing();
    // A server that is gone may come back, but a missing key does not appear by itself.
    if (error.status === 401) return;
  }
  timer = setTimeout(ask, EVERY);
}

/** Adds a gap to the charts while the server does not answer. */
function addNothing() {
  byId("load-about").textContent = "";
  charts.latency.add([null, null, null]);
  charts.queue.add([null, null]);
  for (const name of ["rate", "gpu", "caches"]) charts[name].add([null]);
  last = null;
}

function add({ version, uptime_s, device, load, queues, gpus, caches }) {
  byId("load-about").textContent = `warpseek ${version}, device ${device}, up for ${duration(uptime_s)}, ${plural(load.searches_total, "search", "searches")} since its start`;
  const latency = load.latency_ms;
  charts.rate.add([load.rate], `${plural(load.searches, "search", "searches")} in the last ${Math.round(load.window_s)} seconds`);
  charts.latency.add([latency?.p50 ?? null, latency?.p95 ?? null, latency?.p99 ?? null], latency ? `the longest ${ms(latency.max)}` : "no searches in the last seconds");
  const { searches, writes } = queues;
  charts.queue.add([searches.waiting + writes.waiting, searches.running + writes.running], `${plural(searches.waiting, "search waits", "searches wait")}, ${plural(writes.waiting, "write waits", "writes wait")}; at most ${count(searches.limit)} of each`);
  const used = gpus.reduce((sum, gpu) => sum + gpu.used_bytes, 0);
  const names = gpus.map((gpu) => (gpu.limit_bytes ? `${gpu.device}, limit ${bytes(gpu.limit_bytes)}` : gpu.device));
  const hasGpu = gpus.length > 0;
  charts.gpu.card.hidden = !hasGpu;
  charts.gpu.add([hasGpu ? used : null], names.join("; "));
  const hits = caches.answers.hits + caches.filters.hits + caches.gpu_lists.hits;
  const rate = last && hits >= last.hits ? (hits - last.hits) / Math.max(uptime_s - last.at, 0.001) : null;
  const shares = [`answers: ${share(caches.answers)}`, `filters: ${share(caches.filters)}`, hasGpu && `lists on GPUs: ${share(caches.gpu_lists)}`];
  charts.caches.add([rate], shares.filter(Boolean).join("; "));
  last = { hits, at: uptime_s };
}

function share({ hits, misses }) {
  return hits + misses === 0 ? "not used" : `${count(hits)} of ${count(hits + misses)} found (${Math.floor((100 * hits) / (hits + misses))} %)`;
}
