// One prompt, two answers at once: the device's and the cloud's. And what `auto` would have done.

import { current } from "./overview.js";
import { byId, copyButton, count, duration, make, money, unverifiedBadge, verdict as thumbsOf, words } from "./page_parts.js";
import { ask, events, feedback, reason } from "./server.js";

const SIDES = { local: "local_only", cloud: "cloud_only" };

export async function compare(asked, question, signal) {
  byId("compared").textContent = question;
  byId("verdict").replaceChildren();
  const hasCloud = Boolean(current()?.providers.length);
  const [local] = await Promise.all([
    side("local", asked, signal),
    hasCloud ? side("cloud", asked, signal) : noCloud(),
  ]);
  if (local) byId("verdict").replaceChildren(...verdict(local));
}

async function noCloud() {
  const command = "edgewise auth set openai";
  part("cloud", "said").replaceChildren(make("p", { class: "note", text: "No cloud provider has a key. Store one, then start the server again:" }),
    make("span", { class: "command" }, make("code", { text: command }), copyButton(() => command, `Copy: ${command}`)));
  part("cloud", "by").textContent = "";
  part("cloud", "facts").replaceChildren();
}

const part = (name, what) => byId(`side-${name}`).querySelector(`.side-${what}`);

// Returns the `edgewise` object of the answer; null where there was none.
async function side(name, asked, signal) {
  const box = byId(`side-${name}`);
  const said = part(name, "said");
  const began = performance.now();
  const live = { pieces: 0, text: "", first: null };
  let report = null;
  box.setAttribute("aria-busy", "true"); // read aloud when it is whole
  said.replaceChildren();
  part(name, "by").textContent = "";
  part(name, "verdict").replaceChildren();
  facts(name, live, began, null);
  const ticking = setInterval(() => facts(name, live, began, null), 200);
  try {
    const response = await ask("/v1/chat/completions", {
      method: "POST", headers: { "content-type": "application/json" }, signal,
      body: JSON.stringify({ ...asked, metadata: { ...asked.metadata, policy: SIDES[name] } }),
    });
    if (!response.ok) throw new Error(await reason(response));
    for await (const { data: event } of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const text = event.choices?.[0]?.delta?.content;
      if (text) {
        live.first ??= performance.now();
        live.pieces += 1;
        said.append(text);
      }
      if (event.edgewise?.decision) report = event.edgewise;
    }
  } catch (error) {
    said.append(make("p", { class: "error", text: error.name === "AbortError" ? "Stopped." : error.message }));
  } finally {
    clearInterval(ticking);
    box.setAttribute("aria-busy", "false");
  }
  if (report) part(name, "by").textContent = report.model;
  if (report && report.source !== "none") part(name, "verdict").replaceChildren(thumbsOf(report.id, feedback));
  facts(name, live, began, report);
  return report;
}

// While it streams, what the page itself sees; at the end, what the server measured.
function facts(name, live, began, report) {
  const rows = report
    ? [
      ["Time", duration(report.total_ms)], ["First text", duration(report.first_token_ms)],
      ["Tokens", `${count(report.usage.output_tokens)} (${rate(report)})`],
      ["Cost", report.cost_microdollars ? money(report.cost_microdollars) : "$0"],
      ["Confidence", report.confidence === null ? (name === "cloud" ? "not measured" : "–") : report.confidence.toFixed(2)],
    ]
    : [["Time", duration(performance.now() - began)], ["First text", live.first ? duration(live.first - began) : "–"], ["Tokens", `${count(live.pieces)} so far`], ["Cost", "–"], ["Confidence", "–"]];
  const list = part(name, "facts");
  list.replaceChildren(...rows.map(([term, value]) => make("div", {}, make("dt", { text: term }), make("dd", { text: value }))));
  if (report && report.confidence !== null && !report.confidence_verified) list.lastElementChild.lastElementChild.append(" ", unverifiedBadge(report.decision.calibration));
}

function rate(report) {
  const writing = report.total_ms - (report.first_token_ms ?? 0);
  return report.usage.output_tokens > 1 && writing > 0 ? `${((1000 * (report.usage.output_tokens - 1)) / writing).toFixed(0)}/s` : "–";
}

// From the device's own confidence and threshold, and the policy that `auto` stands for here.
function verdict(local) {
  const { policy } = current().settings;
  const to = (place, text) => [make("strong", { text: "auto" }), " would have ", make("span", { class: `pill ${place}`, text: place === "local" ? "kept the device’s answer" : "asked the cloud" }), text];
  if (policy === "local_only") return to("local", " in any case: the server’s policy is local_only.");
  if (policy !== "prefer_local") return to("cloud", ` first: the server’s policy is ${policy}.`);
  const { confidence, needs_cloud_handoff: inDoubt, decision } = local;
  if (confidence === null || decision.threshold === null) return to(inDoubt ? "cloud" : "local", ` (${words(decision.code)}).`);
  const than = `(confidence ${confidence.toFixed(2)}, threshold ${decision.threshold.toFixed(2)}).`;
  if (!inDoubt) return to("local", ` ${than}`);
  return current().providers.length ? to("cloud", ` ${than}`) : to("local", ` in doubt, because no cloud has a key ${than}`);
}
