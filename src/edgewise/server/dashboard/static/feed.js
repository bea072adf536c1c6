// Requests as they happen: the latest from the ledger, then each as it ends.

import { confidenceBar } from "./charts.js";
import { connected, refreshSoon } from "./overview.js";
import { PLACES, byId, clock, day, duration, make, money, table, words } from "./page_parts.js";
import { ask, events, getJson, reason } from "./server.js";

const MOST = 100;
const SAY_MS = 4000;
let paused = false;
const held = [];
let said = 0;

export async function startFeed() {
  byId("curl").textContent = `curl ${location.origin}/v1/chat/completions -H 'content-type: application/json' \\\n  -d '{"model": "auto", "messages": [{"role": "user", "content": "Hello"}]}'`;
  byId("pause").addEventListener("click", togglePause);
  const { requests } = await getJson("/edgewise/requests");
  byId("feed").replaceChildren(...requests.map((row) => line(fromLedger(row))));
  noteEmpty();
  follow();
}

// For as long as the page is open; the server ends long streams, and networks break.
async function follow() {
  let pause = 500;
  for (;;) {
    try {
      const response = await ask("/edgewise/events");
      if (!response.ok) throw new Error(await reason(response));
      connected(true);
      pause = 500;
      for await (const event of events(response)) {
        arrive(fromJournal(event));
        refreshSoon();
      }
    } catch (error) {
      connected(false, error.message);
    }
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(8000, 2 * pause);
  }
}

function fromLedger(row) {
  return {
    id: row.id, at: row.created_at, what: row.task, model: row.model, source: row.source,
    confidence: row.confidence, verified: row.confidence_verified, code: row.error_code || row.decision_code, reason: row.error || row.reason,
    degraded: row.degraded_code, cost: row.cost_microdollars, took: row.total_ms, failed: Boolean(row.error_code),
  };
}

const TASKS = { "chat.completions": "chat", responses: "chat", messages: "chat", embeddings: "embed", "audio.transcriptions": "transcribe" };

function fromJournal(row) {
  return {
    id: row.id, at: row.at, what: TASKS[row.endpoint] || row.endpoint, model: row.answered_by || row.model,
    source: row.source || "none", confidence: row.confidence ?? null, verified: row.confidence_verified, code: row.code, reason: "",
    degraded: row.degraded, cost: row.cost_microdollars || 0, took: row.total_ms, failed: row.status >= 400 || row.left,
  };
}

function line(row, fresh = false) {
  const when = day(row.at) === day(Date.now() / 1000) ? clock(row.at) : `${day(row.at)} ${clock(row.at, false)}`;
  const why = make("td", { class: "why" }, make("span", { class: row.failed ? "error" : "", text: words(row.code) }));
  if (row.degraded) why.append(make("span", { class: "error", text: ` · cloud: ${words(row.degraded)}` }));
  if (row.reason) why.title = row.reason;
  return make("tr", { class: fresh ? "new" : "", "data-id": row.id },
    make("td", {}, row.id
      ? make("button", { class: "when", type: "button", text: when, "aria-label": `${when}: details`, onclick: () => detail(row.id) })
      : when),
    make("td", { class: "what" }, row.what, make("small", { text: row.model })),
    make("td", { class: "by" }, make("span", { class: `pill ${row.source}`, text: PLACES[row.source] })),
    make("td", { class: "sure" }, row.confidence === null ? "–" : confidenceBar(row.confidence, row.source, row.verified)),
    why,
    make("td", { class: "number cost", text: row.cost ? money(row.cost) : "–" }),
    make("td", { class: "number took", text: duration(row.took) }));
}

function arrive(row) {
  if (paused) {
    held.push(row);
    byId("pause").textContent = `Continue (${held.length} new)`;
    return;
  }
  const body = byId("feed");
  body.prepend(line(row, true));
  while (body.rows.length > MOST) body.lastElementChild.remove();
  noteEmpty();
  // Said aloud, but not faster than anybody can listen.
  if (Date.now() - said > SAY_MS) {
    said = Date.now();
    const sure = row.confidence === null ? "" : `, ${row.verified ? "" : "unverified "}confidence ${row.confidence.toFixed(2)}`;
    byId("feed-news").textContent = row.failed
      ? `A request failed: ${words(row.code)}` : `Answered by ${PLACES[row.source]}${sure}: ${words(row.code)}`;
  }
}

function togglePause() {
  paused = !paused;
  const button = byId("pause");
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Continue" : "Pause";
  if (!paused) held.splice(0).forEach(arrive);
}

function noteEmpty() {
  const empty = !byId("feed").rows.length;
  byId("feed-empty").hidden = !empty;
  byId("feed-scroll").hidden = empty;
}

async function detail(id) {
  const body = byId("detail-body");
  body.replaceChildren(make("p", { class: "empty", text: "Reading…" }));
  byId("detail").showModal();
  try {
    const row = await getJson(`/edgewise/requests/${encodeURIComponent(id)}`);
    body.replaceChildren(...describe(row));
  } catch (error) {
    body.replaceChildren(make("p", { class: "error", text: error.message }));
  }
}

function describe(row) {
  const facts = [
    ["Id", row.id], ["When", `${day(row.created_at)} ${clock(row.created_at)}`], ["Task", row.task],
    ["Answered by", `${PLACES[row.source]}${row.model ? ` (${row.model})` : ""}`],
    ["Why", row.why.sentence], ["Evidence that decided", row.why.evidence],
    ["What would have changed it", row.why.changes.join(" ")], ["Note", row.why.notes.join("; ")],
    ["Code", row.error_code || row.decision_code],
    ["Kept from the cloud by", row.degraded_code],
    ["Confidence", row.confidence === null ? "" : `${row.confidence.toFixed(3)}${row.confidence_verified ? "" : ", unverified"}${row.threshold === null ? "" : ` (threshold ${row.threshold.toFixed(3)})`}`],
    ["Calibration", row.calibration], ["Policy", `${row.policy}, handoff ${row.handoff}${row.private ? ", private" : ""}`],
    ["Tokens", `${row.input_tokens} in, ${row.output_tokens} out`],
    ["Cost", `${money(row.cost_microdollars)}; avoided ${money(row.cost_avoided_microdollars)}`],
    ["Took", `${duration(row.total_ms)}${row.first_token_ms === null ? "" : `; first text after ${duration(row.first_token_ms)}`}`],
  ].filter(([, value]) => value);
  const list = make("dl", { class: "facts-list" });
  for (const [name, value] of facts) list.append(make("dt", { text: name }), make("dd", { text: value }));
  const parts = [list];
  if (row.attempts.length) {
    parts.push(make("h3", { text: "Attempts" }), make("div", { class: "scroll" }, table(
      ["Where", "Who", "Outcome", "Took", "Tokens", "Cost"],
      row.attempts.map((each) => [PLACES[each.place], `${each.backend} ${each.model}`, words(each.outcome), duration(each.total_ms), `${each.input_tokens} / ${each.output_tokens}`, money(each.cost_microdollars)]))));
  }
  const features = Object.entries(row.features || {});
  const added = Object.fromEntries(row.why.pulls.map((pull) => [pull.feature, pull.contribution.toFixed(2)]));
  if (features.length) {
    parts.push(make("h3", { text: "Evidence" }), make("div", { class: "scroll" }, table(
      ["Feature", "Value", "Added (log-odds)"], features.map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? value.toFixed(4) : value, added[name] ?? ""]))));
  }
  for (const [name, text] of [["Prompt", row.prompt_text], ["Answer", row.reply_text]])
    if (text) parts.push(make("h3", { text: name }), make("pre", { text }));
  return parts;
}
