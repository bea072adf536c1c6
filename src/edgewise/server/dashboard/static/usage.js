// Which app, and which of the people behind it, asked, kept and spent what; by day and by week; as a file.

import { timelineChart } from "./charts.js";
import { byId, count, dayUtc, make, money, percent, table } from "./page_parts.js";
import { ask, getJson, reason } from "./server.js";

const AGAIN_MS = 60000;
const NAMES = { key: "no key", user: "nobody named", group: "no group" };
const MANY = { key: ["key", "keys"], user: ["person", "people"], group: ["group", "groups"] };
// Heads of the table, and what a row is sorted by; the name goes from A to Z, the rest from the most.
const COLUMNS = [
  ["name", "", (row) => nameOf(row) || "\uffff"], ["spent", "Spent", (row) => row.spent_microdollars], ["asked", "Requests", (row) => row.requests],
  ["kept", "Kept", (row) => shareOf(row) ?? -1], ["doubtful", "Doubtful", (row) => row.doubtful], ["cloud", "Cloud", (row) => row.cloud],
  ["failed", "Failed", (row) => row.failed], ["avoided", "Avoided", (row) => row.avoided_microdollars],
];
let found = [];
let trend = [];
let begun = 0;
let chosen = ""; // whose trend is shown; "": of all
let sorted = "spent";

const path = (every) => `/edgewise/usage/${byId("usage-by").value}/${every}/${byId("range").value}`;
const nameOf = (row) => row[byId("usage-by").value] || "";
const shownName = (row) => nameOf(row) || NAMES[byId("usage-by").value];
const keyOf = (row) => (byId("usage-by").value === "key" ? "" : row.key); // a person is one of their key's
const whoOf = (row) => `${keyOf(row)}\n${nameOf(row)}`;
const shareOf = (row) => (row.requests > row.failed ? row.kept / (row.requests - row.failed) : null);

export function startUsage() {
  for (const id of ["usage-by", "usage-every", "range"]) byId(id).addEventListener("change", () => { chosen = id === "usage-by" ? "" : chosen; refreshUsage(true); });
  byId("usage-find").addEventListener("input", show);
  byId("usage-what").addEventListener("change", showTrend);
  byId("usage-export").addEventListener("click", save);
  new ResizeObserver(showTrend).observe(byId("usage-trend"));
}

// With the overview, but not as often: it moves slowly.
export async function refreshUsage(now = false) {
  if (!now && performance.now() - begun < AGAIN_MS && begun) return;
  begun = performance.now();
  try {
    const [{ rows }, periods] = await Promise.all([getJson(path("all")), getJson(path(byId("usage-every").value))]);
    byId("usage").hidden = !rows.length;
    [found, trend] = [rows, periods.rows];
    if (!found.some((row) => whoOf(row) === chosen)) chosen = "";
    show();
    byId("usage-trouble").hidden = true;
  } catch (error) {
    byId("usage-trouble").textContent = error.message;
    byId("usage-trouble").hidden = false;
  }
}

function wanted() {
  const search = byId("usage-find").value.trim().toLowerCase();
  return (row) => !search || `${shownName(row)} ${keyOf(row)}`.toLowerCase().includes(search);
}

function show() {
  const column = COLUMNS.find(([id]) => id === sorted);
  const isPeople = byId("usage-by").value !== "key"; // what nobody is named for comes last
  const order = (a, b) => { if (isPeople && Boolean(nameOf(a)) !== Boolean(nameOf(b))) return nameOf(a) ? -1 : 1; const [x, y] = [column[2](a), column[2](b)]; return x === y ? 0 : (sorted === "name" ? x < y : x > y) ? -1 : 1; };
  const rows = found.filter(wanted()).sort(order);
  const box = byId("usage-table");
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  const head = make("tr", {}, ...COLUMNS.map(([id, text]) => make("th", { scope: "col", class: id, "aria-sort": id === sorted ? (id === "name" ? "ascending" : "descending") : null },
    make("button", { type: "button", class: "plain", "data-name": `head ${id}`, text: text || { key: "Key", user: "Person", group: "Group" }[byId("usage-by").value], onclick: () => { sorted = id; show(); } }))));
  box.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.map(line)), rows.length > 1 ? make("tfoot", {}, total(rows)) : null));
  if (focused) box.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  const named = found.filter((row) => nameOf(row) || !isPeople).length;
  byId("usage-count").textContent = `${rows.length === found.length ? "" : `${count(rows.length)} of `}${count(named)} ${MANY[byId("usage-by").value][named === 1 ? 0 : 1]}, in whole days of UTC`;
  showTrend();
}

function line(row) {
  const pressed = whoOf(row) === chosen;
  const name = make("button", { type: "button", class: "plain", "aria-pressed": String(pressed), "data-name": whoOf(row), title: "Show its trend", text: shownName(row), onclick: () => { chosen = pressed ? "" : whoOf(row); show(); } });
  return make("tr", { class: pressed ? "chosen" : "" }, make("th", { scope: "row", class: "name" }, name, keyOf(row) ? make("small", { text: keyOf(row) }) : null), ...cells(row));
}

function cells(row) {
  const share = shareOf(row);
  const bar = make("span", { class: "mini", "aria-hidden": "true" }, make("span"));
  bar.firstChild.style.width = `${100 * (share ?? 0)}%`;
  const values = { spent: money(row.spent_microdollars), asked: count(row.requests), kept: percent(share), doubtful: count(row.doubtful), cloud: count(row.cloud), failed: count(row.failed), avoided: money(row.avoided_microdollars) };
  return Object.entries(values).map(([id, text]) => make("td", { class: `number ${id}${text === "0" || text === "$0" ? " nil" : ""}` }, id === "kept" && share !== null ? bar : null, text));
}

const total = (rows) => make("tr", {}, make("th", { scope: "row", class: "name", text: "all of them" }), ...cells(rows.reduce((sum, row) => {
  for (const each of ["spent_microdollars", "requests", "kept", "doubtful", "cloud", "failed", "avoided_microdollars"]) sum[each] = (sum[each] || 0) + row[each];
  return sum;
}, {})));

// One bar for each day or week, those without a request too: a gap is seen as one.
function showTrend() {
  const box = byId("usage-trend");
  const [isWanted, every] = [wanted(), byId("usage-every").value];
  const periods = new Map();
  for (const row of trend) {
    if (chosen ? whoOf(row) !== chosen : !isWanted(row)) continue;
    const start = startOf(row.period);
    const sum = periods.get(start) || { start, local: 0, cloud: 0, none: 0, spent: 0 };
    sum.local += row.kept;
    sum.none += row.failed;
    sum.cloud += row.requests - row.kept - row.failed;
    sum.spent += row.spent_microdollars;
    periods.set(start, sum);
  }
  const of = found.find((row) => whoOf(row) === chosen);
  byId("usage-trend-title").textContent = of ? `Trend: ${[shownName(of), keyOf(of)].filter(Boolean).join(" of ")}` : "Trend";
  byId("usage-data").replaceChildren();
  if (!box.clientWidth || !periods.size) { box.replaceChildren(); return; }
  const step = every === "week" ? 7 * 86400 : 86400;
  const stretches = [];
  for (let start = Math.min(...periods.keys()); start <= Date.now() / 1000; start += step)
    stretches.push(periods.get(start) || { start, local: 0, cloud: 0, none: 0, spent: 0 });
  const shown = byId("usage-what").value === "spent"
    ? { rows: stretches.map(({ start, spent }) => ({ start, cloud: spent })), name: "Spent", say: money }
    : { rows: stretches, name: "Requests", say: count };
  const isFlat = byId("usage-what").value === "spent" && !stretches.some((sum) => sum.spent);
  box.replaceChildren(isFlat ? make("p", { class: "empty", text: "Nothing was spent in this time." }) : timelineChart(shown.rows, Math.max(200, box.clientWidth), { name: shown.name, say: shown.say, label: dayUtc, height: 170 }));
  byId("usage-data").replaceChildren(table(["From", "Requests", "Kept", "Spent"],
    stretches.map((sum) => [dayUtc(sum.start), count(sum.local + sum.cloud + sum.none), count(sum.local), money(sum.spent)])));
}

// "2026-11-03" or "2026-W45", as Unix seconds; the week of 4 January is the first.
function startOf(period) {
  const week = /^(\d+)-W(\d+)$/.exec(period);
  if (!week) return Date.parse(`${period}T00:00:00Z`) / 1000;
  const fourth = new Date(Date.UTC(Number(week[1]), 0, 4));
  return (fourth.getTime() / 1000) + 86400 * (7 * (Number(week[2]) - 1) - ((fourth.getUTCDay() + 6) % 7));
}

// What is shown, as CSV.
async function save() {
  const every = byId("usage-every").value;
  const response = await ask(path(every), { headers: { accept: "text/csv" } });
  if (!response.ok) { byId("usage-trouble").textContent = await reason(response); byId("usage-trouble").hidden = false; return; }
  const url = URL.createObjectURL(await response.blob());
  const link = make("a", { href: url, download: `edgewise-${byId("usage-by").value}-${every}-${byId("range").value}.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
