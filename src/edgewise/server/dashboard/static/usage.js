// Which app, and which of the people behind it, asked, kept and spent what; by day and by week; as a file.

import { timelineChart } from "./charts.js";
import { byId, count, make, money, percent, table } from "./page_parts.js";
import { ask, getJson, reason } from "./server.js";

const AGAIN_MS = 60000;
const NAMES = { key: "no key", user: "nobody named", group: "no group" };
let trend = [];
let begun = 0;

const path = (every) => `/edgewise/usage/${byId("usage-by").value}/${every}/${byId("range").value}`;
const nameOf = (row) => (byId("usage-by").value === "key" ? row.key : row[byId("usage-by").value]) || "";
const shownName = (row) => {
  const by = byId("usage-by").value;
  const name = nameOf(row) || NAMES[by];
  return by === "key" || !row.key ? name : `${name} · ${row.key}`;
};

export function startUsage() {
  for (const id of ["usage-by", "range"]) byId(id).addEventListener("change", () => refreshUsage(true));
  for (const id of ["usage-every", "usage-of"]) byId(id).addEventListener("change", () => refreshUsage(true));
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
    offer(rows);
    show(rows);
    trend = periods.rows;
    showTrend();
    byId("usage-trouble").hidden = true;
  } catch (error) {
    byId("usage-trouble").textContent = error.message;
    byId("usage-trouble").hidden = false;
  }
}

function offer(rows) {
  const list = byId("usage-of");
  const before = list.value;
  const names = [...new Set(rows.map(nameOf).filter(Boolean))].sort();
  list.replaceChildren(list.options[0], ...names.map((value) => make("option", { value, text: value })));
  list.value = names.includes(before) ? before : "";
}

function show(rows) {
  const chosen = byId("usage-of").value;
  const shown = rows.filter((row) => !chosen || nameOf(row) === chosen);
  const made = table(
    [{ key: "Key", user: "Person", group: "Group" }[byId("usage-by").value], "Requests", "Kept", "Doubtful", "Cloud", "Failed", "Spent", "Avoided"],
    shown.map((row) => {
      const answered = row.requests - row.failed;
      return [shownName(row), count(row.requests), answered ? `${count(row.kept)} (${percent(row.kept / answered)})` : "0", count(row.doubtful), count(row.cloud), count(row.failed), money(row.spent_microdollars), money(row.avoided_microdollars)];
    }));
  byId("usage-table").replaceChildren(made);
  byId("usage-count").textContent = `${count(shown.length)} in whole days of UTC`;
}

// One bar for each day or week.
function showTrend() {
  const box = byId("usage-trend");
  if (!box.clientWidth || !trend.length) { box.replaceChildren(); return; }
  const chosen = byId("usage-of").value;
  const periods = new Map();
  for (const row of trend) {
    if (chosen && nameOf(row) !== chosen) continue;
    const sum = periods.get(row.period) || { start: startOf(row.period), local: 0, cloud: 0, none: 0, spent: 0 };
    sum.local += row.kept;
    sum.none += row.failed;
    sum.cloud += row.requests - row.kept - row.failed;
    sum.spent += row.spent_microdollars;
    periods.set(row.period, sum);
  }
  const stretches = [...periods].sort(([a], [b]) => (a < b ? -1 : 1));
  if (!stretches.length) { box.replaceChildren(); return; }
  box.replaceChildren(timelineChart(stretches.map(([, sum]) => sum), Math.max(200, box.clientWidth)));
  byId("usage-data").replaceChildren(table(["From", "Requests", "Kept", "Spent"],
    stretches.map(([period, sum]) => [period, count(sum.local + sum.cloud + sum.none), count(sum.local), money(sum.spent)])));
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
