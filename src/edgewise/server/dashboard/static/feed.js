// The latest requests from the ledger, filtered and searched; each opens in full. What was refused
// before it became a request is in no ledger: it is told by the server as it happens.

import { confidenceBar } from "./charts.js";
import { showInFlight, showOutcome } from "./in_flight.js";
import { connected, refreshSoon, reportRead } from "./overview.js";
import { PLACES, badge, byId, clock, count, day, duration, make, money, table, thumbs, told, whyNotCloud, withCode, words } from "./page_parts.js";
import { ask, events, feedback, getJson, reason } from "./server.js";
import { showEmpty } from "./start.js";

const SAY_MS = 4000;
const MOST_REFUSED = 50;
const FILTERS = ["task", "source", "state", "model", "key"];
const STATES = {
  doubt: (row) => row.inDoubt, degraded: (row) => Boolean(row.degraded), unverified: (row) => row.confidence !== null && !row.verified, failed: (row) => row.failed,
};
let rows = [];
const refused = [];
let seen = null; // the ids that were shown; null: none yet
let paused = false;
let fresh = 0; // that came while paused
let said = 0;
const judged = new Map(); // verdicts given here, until the ledger is read again

export async function startFeed() {
  byId("pause").addEventListener("click", togglePause);
  for (const name of FILTERS) byId(`filter-${name}`).addEventListener("change", show);
  byId("search").addEventListener("input", show);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(show));
  reportRead(take);
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
      trouble("");
      pause = 500;
      for await (const { name, data } of events(response)) {
        if (name === "in_flight") { showInFlight(data); continue; }
        showOutcome(data);
        if (!data.id) refuse(data);
        refreshSoon();
      }
    } catch (error) {
      if (error instanceof TypeError) connected(false, error);
      else trouble(`Requests are not followed as they happen: ${error.message}`);
    }
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(8000, 2 * pause);
  }
}

function trouble(words) {
  byId("feed-trouble").textContent = words;
  byId("feed-trouble").hidden = !words;
}

function refuse(row) {
  refused.unshift({
    id: "", at: row.at, task: row.endpoint, model: row.model, source: "none", key: "", confidence: null, verified: false,
    code: row.code, reason: `status ${row.status}: not counted, because it never became a request`, degraded: "", inDoubt: false, cost: 0, took: row.total_ms, failed: true,
  });
  refused.splice(MOST_REFUSED);
}

function fromLedger(row) {
  return {
    id: row.id, at: row.created_at, task: row.task, model: row.model, source: row.source, key: row.budget_key,
    confidence: row.confidence, verified: row.confidence_verified, code: row.error_code || row.decision_code, reason: row.reason,
    degraded: row.degraded_code, inDoubt: row.needs_cloud_handoff && row.source !== "cloud", cost: row.cost_microdollars, took: row.total_ms, failed: Boolean(row.error_code), guessed: row.price_guessed,
    verdict: row.verdict,
  };
}

// With every reading of the overview, so that the rows and the figures are of one moment.
function take(requests) {
  const found = requests.map(fromLedger);
  for (const row of found) if (judged.get(row.id) === row.verdict) judged.delete(row.id);
  const news = seen === null ? [] : found.filter((row) => !seen.has(row.id));
  if (paused) {
    fresh = news.length;
    byId("pause").textContent = fresh ? `Continue (${count(fresh)} new)` : "Continue";
    return;
  }
  rows = [...found, ...refused].sort((a, b) => b.at - a.at);
  showEmpty(!rows.length);
  for (const name of ["task", "model", "key"]) offer(name);
  show(new Set(news.map((row) => row.id)));
  seen = new Set(found.map((row) => row.id));
  if (news.length) tell(news[0]);
}

// Said aloud, but not faster than anybody can listen.
function tell(row) {
  if (Date.now() - said < SAY_MS) return;
  said = Date.now();
  const sure = row.confidence === null ? "" : `, ${row.verified ? "" : "unverified "}confidence ${row.confidence.toFixed(2)}`;
  byId("feed-news").textContent = row.failed
    ? `A request failed: ${words(row.code)}` : `Answered by ${PLACES[row.source]}${sure}: ${words(row.code)}`;
}

// What there is to choose from, as the rows have it; a choice stays.
function offer(name) {
  const list = byId(`filter-${name}`);
  const values = [...new Set(rows.map((row) => row[name]).filter(Boolean))].sort();
  const before = list.value;
  if ([...list.options].slice(1).map((each) => each.value).join("\n") === values.join("\n")) return;
  list.replaceChildren(list.options[0], ...values.map((value) => make("option", { value, text: value })));
  if (values.includes(before)) list.value = before;
  if (name === "key") byId("filter-key-label").hidden = !values.length;
}

function wanted() {
  const chosen = Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value]));
  const search = byId("search").value.trim().toLowerCase();
  return (row) =>
    ["task", "source", "model", "key"].every((name) => !chosen[name] || row[name] === chosen[name])
    && (!chosen.state || STATES[chosen.state](row))
    && (!search || [row.id, row.task, row.model, row.key, PLACES[row.source], row.code, words(row.code), row.degraded, row.reason].join(" ").toLowerCase().includes(search));
}

function show(fresh) {
  const isFresh = fresh instanceof Set ? fresh : new Set();
  const found = rows.filter(wanted());
  const body = byId("feed");
  const focused = document.activeElement?.closest?.("#feed tr")?.dataset.id;
  const thumb = document.activeElement?.matches?.(".thumb") && document.activeElement.getAttribute("aria-label");
  body.replaceChildren(...found.map((row) => line(row, isFresh.has(row.id))));
  if (focused) body.querySelector(`tr[data-id="${CSS.escape(focused)}"] button${thumb ? `[aria-label="${thumb}"]` : ""}`)?.focus({ preventScroll: true });
  byId("feed-scroll").hidden = !found.length;
  byId("feed-empty").hidden = Boolean(found.length);
  byId("feed-empty").textContent = rows.length ? "No request matches." : "Nothing yet.";
  byId("feed-count").textContent = rows.length ? (found.length === rows.length ? `the latest ${count(rows.length)}` : `${count(found.length)} of the latest ${count(rows.length)}`) : "";
}

function badges(row) {
  const found = [];
  if (row.inDoubt) found.push(badge("in doubt", "The device was not sure, and nobody better was asked or answered.", "warn"));
  if (row.degraded) found.push(badge("degraded", `The cloud should have answered: ${whyNotCloud(row.degraded)}`, "bad"));
  return found;
}

function line(row, fresh) {
  const when = day(row.at) === day(Date.now() / 1000) ? clock(row.at) : `${day(row.at)} ${clock(row.at, false)}`;
  const why = make("td", { class: "why", title: row.reason || null }, make("span", { class: row.failed ? "error" : "", text: told(row.code, row.degraded) }));
  if (row.degraded) why.append(make("small", { text: `cloud: ${whyNotCloud(row.degraded)}` }));
  return make("tr", { class: [fresh ? "new" : "", row.id ? "opens" : ""].join(" "), "data-id": row.id, ...(row.id ? { onclick: () => detail(row.id) } : {}) },
    make("td", { class: "at" }, row.id
      ? make("button", { class: "when", type: "button", text: when, "aria-label": `${when}: details`, onclick: (event) => { event.stopPropagation(); detail(row.id); } })
      : when),
    make("td", { class: "what" }, row.task, make("small", { text: [row.model, row.key].filter(Boolean).join(" · "), title: [row.model, row.key].filter(Boolean).join(" · ") })),
    make("td", { class: "by" }, make("span", { class: `pill ${row.source}`, text: row.id ? PLACES[row.source] : "refused" }), ...badges(row)),
    make("td", { class: "sure" }, row.confidence === null ? "–" : confidenceBar(row.confidence, row.source, row.verified, row.calibration)),
    why,
    make("td", { class: "number cost", text: row.cost ? money(row.cost) : "–" }, row.guessed && row.cost ? badge("guess", "The price of this model is on no list and in no setting: the cost is a guess.", "warn") : null),
    make("td", { class: "number took", text: duration(row.took) }),
    make("td", { class: "verdict" }, row.id && row.source !== "none" ? thumbs(judged.get(row.id) ?? row.verdict, (right) => judge(row, right)) : null));
}

async function judge(row, right) {
  const before = judged.get(row.id);
  judged.set(row.id, right);
  show();
  try {
    await feedback(row.id, right);
    byId("feed-news").textContent = right ? "Counted as right." : "Counted as wrong.";
    trouble("");
    refreshSoon();
  } catch (error) {
    if (before === undefined) judged.delete(row.id); else judged.set(row.id, before);
    trouble(`The verdict was not recorded: ${error.message}`);
    show();
  }
}

function togglePause() {
  paused = !paused;
  const button = byId("pause");
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Continue" : "Pause";
  if (!paused) refreshSoon();
}

async function detail(id) {
  const body = byId("detail-body");
  body.replaceChildren(make("p", { class: "empty", text: "Reading…" }));
  if (!byId("detail").open) byId("detail").showModal();
  try {
    const row = await getJson(`/edgewise/requests/${encodeURIComponent(id)}`);
    body.replaceChildren(...describe(row));
  } catch (error) {
    body.replaceChildren(make("p", { class: "error", text: error.message }));
  }
}

function describe(row) {
  const facts = [
    ["Why", row.why.sentence], ["Evidence that decided", row.why.evidence],
    ["What would have changed it", row.why.changes.join(" ")], ["Note", row.why.notes.join("; ")],
    ["Error", row.error],
    ["Answered by", `${PLACES[row.source]}${row.model ? ` (${row.model})` : ""}`],
    ["Confidence", row.confidence === null ? "" : `${row.confidence.toFixed(3)}${row.confidence_verified ? "" : ", unverified"}${row.threshold === null ? "" : ` (threshold ${row.threshold.toFixed(3)})`}${row.kept_at === null || row.kept_at === undefined ? "" : `; it was ${row.kept_at.toFixed(3)} when the stream began to show it, which decided`}`],
    ["Kept from the cloud by", whyNotCloud(row.degraded_code)],
    ["Code", row.error_code || row.decision_code],
    ["Calibration", row.calibration], ["Policy", `${row.policy}, handoff ${row.handoff}${row.private ? ", private" : ""}`],
    ["Tokens", `${count(row.input_tokens)} in, ${count(row.output_tokens)} out`],
    ["Cost", `${money(row.cost_microdollars)}${row.price_guessed && row.cost_microdollars ? " (a guess: the price is on no list and in no setting)" : ""}; avoided ${money(row.cost_avoided_microdollars)}`],
    ["Took", `${duration(row.total_ms)}${row.first_token_ms === null ? "" : `; first text after ${duration(row.first_token_ms)}`}`],
    ["When", `${day(row.created_at)} ${clock(row.created_at)}`], ["Task", row.task], ["Key", row.budget_key], ["Person", row.user_name], ["Group", row.group_name], ["Id", row.id],
  ].filter(([, value]) => value);
  const list = make("dl", { class: "facts-list" });
  for (const [name, value] of facts) list.append(make("dt", { text: name }), make("dd", {}, ...(row.why.notes.includes(value) ? withCode(value) : [value])));
  const parts = [make("p", { class: "detail-head" }, make("span", { class: `pill ${row.source}`, text: PLACES[row.source] }), ...badges(fromLedger(row))), list];
  // The ledger writes a cloud's attempt when it begins, and the device's with the answer.
  if (row.decision_code.startsWith("handoff_")) row.attempts.sort((a, b) => (a.place === b.place ? 0 : a.place === "local" ? -1 : 1));
  if (row.attempts.length) {
    parts.push(make("h3", { text: "Attempts" }), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attempts" }, table(
      ["Where", "Who", "Outcome", "Took", "Tokens", "Cost"],
      row.attempts.map((each) => [PLACES[each.place], `${each.backend} ${each.model}`, words(each.outcome), duration(each.total_ms), `${each.input_tokens} / ${each.output_tokens}`, money(each.cost_microdollars)]))));
  }
  const features = Object.entries(row.features || {});
  const added = Object.fromEntries(row.why.pulls.map((pull) => [pull.feature, pull.contribution.toFixed(2)]));
  if (features.length) {
    parts.push(make("details", { class: "data" }, make("summary", { text: "Evidence" }), make("div", { class: "scroll" }, table(
      ["Feature", "Value", "Added (log-odds)"], features.map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? value.toFixed(4) : value, added[name] ?? ""])))));
  }
  for (const [name, text] of [["Prompt", row.prompt_text], ["Answer", row.reply_text]])
    if (text) parts.push(make("h3", { text: name }), make("pre", { text }));
  return parts;
}
