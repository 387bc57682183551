// Which device and algorithm answered, and how long each step took, as the server says.

import { byId, el } from "./dom.js";
import { ms } from "./format.js";

const STEPS = { wait: "wait", parse: "parse", plan: "plan", search: "search", fetch: "fetch", highlight: "highlight", explain: "explain" };

export function show(answer) {
  const place = byId("trace");
  if (!answer) {
    place.replaceChildren();
    return;
  }
  const steps = Object.keys(STEPS).map((step) => [step, answer.steps[step]]).filter(([, time]) => time > 0);
  const whole = steps.reduce((sum, [, time]) => sum + time, 0);
  const part = ([step, time]) => el("span", { class: `step ${step}`, "--share": time / whole });
  const line = ([step, time]) => el("li", { class: step }, STEPS[step], " ", el("data", { value: time }, ms(time)));
  const { full, documents, of } = answer.coverage;
  place.replaceChildren(
    el(
      "p",
      {},
      el("strong", { id: "device" }, answer.device),
      " with ",
      el("strong", { id: "algorithm" }, answer.algorithm),
      answer.why && ` (${answer.why})`,
      ` in ${ms(whole)}`,
      !full && ` — the time was up: ${documents} of ${of} documents were searched`,
    ),
    el("div", { class: "steps", "aria-hidden": "true" }, steps.map(part)),
    el("ul", { class: "legend", "aria-label": "Time of each step" }, steps.map(line)),
  );
}
