// The figures and pictures of the overview, read from the ledger again when something happened.

import { latencyChart, timelineChart } from "./charts.js";
import { queueLine } from "./in_flight.js";
import { refreshModels } from "./models.js";
import { PLACES, SOURCES, byId, clock, count, day, duration, make, money, percent, shortened, table, whyNotCloud, withCode } from "./page_parts.js";
import { getJson } from "./server.js";
import { showReadiness } from "./start.js";
import { Threshold } from "./threshold.js";
import { refreshUsage, startUsage } from "./usage.js";

const AGAIN_MS = 5000;
const GAP_MS = 1000; // at least, between two readings
const MANY = 500; // confidences: so many are read again more rarely
const MANY_MS = 15000;
// The long lists. `of`: the figures they belong to; `news`: something has come since; `late`: the
// confidences are older than the requests.
const lists = { of: "", news: false, late: false, at: 0, requests: [], confidences: [] };
const threshold = new Threshold();
let last = null;
let waiting = null;
let busy = false;
let again = false;
let began = -GAP_MS;
let onRequests = () => {};

// Who is told the latest requests, each time they are read.
export function reportRead(take) {
  onRequests = take;
}

// What the server is set to; null until it was read.
export const current = () => last;

export function startOverview() {
  byId("range").addEventListener("change", refresh);
  startUsage();
  new ResizeObserver(() => {
    if (!last) return;
    showTimeline(last.timeline);
    showLatency(last.report);
  }).observe(byId("timeline"));
  setInterval(() => document.hidden || refresh(), AGAIN_MS);
  return refresh();
}

// After a request: soon, but not once for each of many.
export function refreshSoon() {
  lists.news = true;
  waiting ??= setTimeout(() => { waiting = null; refresh(); }, Math.max(300, began + GAP_MS - performance.now()));
}

export async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  began = performance.now();
  try {
    const range = byId("range").value;
    const overview = await getJson(`/edgewise/overview/${range}`);
    last = overview;
    show(overview);
    await readLists(range, overview);
    refreshUsage();
    refreshModels(false, !overview.own);
    connected(true);
  } catch (error) {
    connected(false, error);
  } finally {
    busy = false;
    if (again) { again = false; refreshSoon(); }
  }
}

// The requests and their confidences are read again where something has come.
async function readLists(range, { report, settings }) {
  const of = JSON.stringify([range, report.requests, report.by_source, report.verdicts]);
  if (of !== lists.of || lists.news) {
    lists.news = false;
    lists.late = true;
    ({ requests: lists.requests } = await getJson("/edgewise/requests"));
  }
  const isOther = !lists.of.startsWith(`["${range}"`);
  lists.of = of;
  if (lists.late && (isOther || lists.confidences.length < MANY || performance.now() - lists.at > MANY_MS)) {
    [lists.at, lists.late] = [performance.now(), false];
    const found = await getJson(`/edgewise/confidences/${range}`);
    lists.confidences = found.rows;
    threshold.take(found, settings);
  }
  onRequests(lists.requests);
}

// `why`: an error of the network, or what the server said.
export function connected(good, why = null) {
  byId("connection").querySelector(".dot").className = `dot ${good ? "good" : "bad"}`;
  const text = good ? "Live" : why instanceof TypeError ? "No connection" : "Trouble";
  if (byId("connection-words").textContent !== text) byId("connection-words").textContent = text;
  byId("connection").title = why?.message || "";
  byId("connection-trouble").hidden = good || why instanceof TypeError;
  byId("connection-trouble").textContent = why?.message || "";
}

function show(overview) {
  const { report, timeline, providers, budgets, device, settings, version, drift } = overview;
  byId("device-line").textContent = [
    device.model ? `${device.model} on this device` : `no model on this device: ${device.trouble || "starting"}`,
    device.joules_per_answer === null ? null : `${device.joules_per_answer.toPrecision(2)} J an answer`,
    `policy ${settings.policy}`, `version ${version}`,
  ].filter(Boolean).join(" · ");
  byId("queue-line").textContent = queueLine(device.in_flight, device.queues);
  byId("own-line").hidden = !overview.own;
  byId("own-line").textContent = `Your key is ${overview.own}. Requests, budgets, verdicts and what it costs are its own; the totals, times and confidences are those of all keys.`;
  showReadiness(overview);
  showDrift(drift);
  showShare(report);
  figure("requests", count(report.requests));
  byId("requests-note").textContent = report.failed ? `${count(report.failed)} without an answer` : "all were answered";
  figure("spent", money(report.spent_microdollars));
  byId("spent-note").textContent = report.reserved_microdollars
    ? `${money(report.reserved_microdollars)} more set aside for calls still running`
    : report.estimated_microdollars ? `${money(report.estimated_microdollars)} of it estimated` : "from the tokens that providers report";
  figure("avoided", money(report.avoided_microdollars));
  figure("degraded", count(report.degraded));
  byId("degraded-note").textContent = report.degraded ? "it should have answered and did not:" : providers.length ? "it answered whenever it should have" : "no provider has a key, and none was missed";
  byId("degraded-reasons").replaceChildren(...Object.entries(report.degraded_reasons).map(([code, times]) => make("li", {}, whyNotCloud(code), make("b", { text: count(times) }))));
  showErrors(report.verdicts);
  byId("captions-link").hidden = !overview.captions;
  if (!report.requests) for (const id of ["requests-note", "degraded-note"]) byId(id).textContent = "none in this time";
  showTimeline(timeline);
  showLatency(report);
  showProviders(providers);
  showBudgets(budgets);
  showWorkloads(overview.workloads);
}

function figure(id, text) {
  byId(id).textContent = text;
  byId(id).classList.toggle("long", text.length > 7);
}

// What people and programs said about the device's answers.
function showErrors({ count: judged, wrong, share, low, high }) {
  byId("errors-line").textContent = judged
    ? `Of ${count(judged)} answers of the device that somebody judged, ${count(wrong)} were wrong: ${percent(share)}; the true share is between ${percent(low)} and ${percent(high)}, if what is judged is like the rest.`
    : "Nobody has judged an answer of the device in this time. Say of answers below whether they were right.";
}

// One line for each key: what is proven on its own requests, or how many verdicts are missing.
// Those with verdicts first.
function showWorkloads(found) {
  const rows = [...found].sort((a, b) => b.verdicts - a.verdicts).map((each) => make("div", { class: "row" },
    make("span", { class: "grow", text: each.words[0].toUpperCase() + each.words.slice(1) }, make("small", { text: [each.workload || "no key", each.task, `${count(each.requests)} answers`, `${count(each.verdicts)} verdicts`].join(" · ") }))));
  byId("workloads").replaceChildren(...(rows.length ? shortened("What is proven", rows, 2)
    : [make("p", { class: "note", text: "What can be promised grows from verdicts." })]));
}

// The last check of each calibration: loud where it no longer fits, a line where it does.
function showDrift(found) {
  const drifted = found.filter((each) => each.drifted);
  byId("drift-alarm").hidden = !drifted.length;
  byId("drift-alarm").replaceChildren(...drifted.map((each) => make("p", {},
    make("strong", { text: "Drift. " }), `What is asked no longer looks like what ${each.calibration} was measured on: ${each.words}. Its confidences promise less than they say; `,
    make("code", { text: "edgewise calibrate" }), " fits it to your own requests.")));
  const compared = found.filter((each) => !each.drifted && each.distance !== null);
  byId("drift-line").textContent = drifted.length ? drifted.map((each) => `${each.calibration} no longer fits; see above.`).join(" ")
    : compared.length ? compared.map((each) => `No drift: the last ${count(each.rows)} confidences lie ${each.distance.toFixed(2)} from those of ${each.calibration}; up to ${each.bound.toFixed(2)} is chance.`).join(" ")
      : found.length ? "Nothing to compare with: it takes a calibrated model and 50 answers."
        : "Not looked for yet: every 50th answer of a calibrated model is the time for it.";
}

function showShare(report) {
  byId("share").textContent = percent(report.share_on_device);
  const answered = SOURCES.filter((source) => source !== "none").reduce((sum, source) => sum + (report.by_source[source] || 0), 0);
  byId("share-note").textContent = answered ? `${count(report.by_source.local || 0)} of ${count(answered)} answer${answered === 1 ? "" : "s"} came from the device alone` : "";
  const total = SOURCES.reduce((sum, source) => sum + (report.by_source[source] || 0), 0);
  const present = SOURCES.filter((source) => report.by_source[source]);
  byId("share-bar").replaceChildren(...present.map((source) => {
    const part = make("span", { class: source });
    part.style.flexGrow = report.by_source[source] / total;
    return part;
  }));
  byId("share-legend").replaceChildren(...present.map((source) =>
    make("li", { class: source, text: `${PLACES[source]} ${count(report.by_source[source])}` })));
}

function showTimeline(stretches) {
  const box = byId("timeline");
  if (!box.clientWidth) return; // not shown
  box.replaceChildren(timelineChart(stretches, Math.max(200, box.clientWidth)));
  const used = stretches.filter((each) => SOURCES.some((source) => each[source]));
  byId("timeline-data").replaceChildren(table(
    ["From", ...SOURCES.map((source) => PLACES[source])],
    used.map((each) => [`${day(each.start)} ${clock(each.start, false)}`, ...SOURCES.map((source) => each[source] || 0)]),
  ));
}

function showLatency(report) {
  const chart = latencyChart(report, Math.max(200, byId("latency").clientWidth));
  byId("latency").replaceChildren(chart
    ? make("div", {}, chart, make("p", { class: "note", text: "filled: median · hollow: 90 % · end: 99 % · of the latest 5,000 answers" }))
    : make("p", { class: "empty", text: "Nothing was timed in this time." }));
  const rows = [];
  for (const [name, figures] of [["whole answer", report.total_ms], ["first text", report.first_token_ms]])
    for (const [source, each] of Object.entries(figures))
      rows.push([PLACES[source] || source, name, count(each.count), duration(each.p50), duration(each.p90), duration(each.p99)]);
  byId("latency-data").replaceChildren(table(["Source", "Of", "Requests", "Median", "90 %", "99 %"], rows));
}

const STATES = {
  closed: ["good", () => "healthy"],
  half_open: ["warn", () => "being tried again"],
  open: ["bad", (seconds) => `resting, next try in ${Math.ceil(seconds)} s`],
};

function showProviders(providers) {
  const rows = providers.map((each) => {
    const [colour, say] = STATES[each.state];
    const failed = each.failures ? `, ${count(each.failures)} failed` : "";
    return make("div", { class: "row" },
      make("span", { class: `dot ${colour}`, "aria-hidden": "true" }),
      make("span", { class: "grow", text: each.name }, make("small", { text: each.model })),
      make("span", { class: "state" }, say(each.seconds_left),
        make("small", { text: `${count(each.attempts)} asked${failed} · ${money(each.spent_microdollars)}` })));
  });
  byId("providers").replaceChildren(...(rows.length ? shortened("Providers", rows)
    : [make("p", { class: "empty" }, ...withCode("No provider has a key: everything stays on the device. `edgewise auth set openai` stores one."))]));
}

const whose = ({ of, name, key }) => (of ? ` for ${of === "user" ? "" : "the group "}${name} of ${key}` : key ? ` for ${key}` : "");

function showBudgets(budgets) {
  // What is nearest its end first; those of all keys before those of one.
  const share = (each) => (each.limit ? each.remaining / each.limit : 0);
  const rows = [...budgets].sort((a, b) => Boolean(a.key) - Boolean(b.key) || share(a) - share(b)).map((each) => {
    const left = each.limit ? Math.max(0, each.remaining) / each.limit : 0;
    const bar = make("span");
    bar.style.width = `${100 * left}%`;
    return make("div", { class: "row" },
      make("span", { class: "grow", text: `${money(Math.max(0, each.remaining))} left` },
        make("small", { text: `of ${money(each.limit)} a ${each.window}${whose(each)}, until ${day(each.resets_at)}` })),
      make("div", { class: `gauge${left < 0.1 ? " low" : ""}`, role: "meter", "aria-label": "Budget left", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * left) }, bar));
  });
  byId("budgets").replaceChildren(make("h3", { text: "Budget left" }),
    ...(rows.length ? shortened("Budgets", rows, 3) : [make("p", { class: "note" }, ...withCode("No budget is set. `budgets = [\"$3/day\"]` in config.toml sets one."))]));
}
