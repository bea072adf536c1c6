// What another threshold would have done to the requests that were recorded, how many wrong answers
// to expect among those that stay, and how to write the threshold down.

import { HISTOGRAM, binned, histogramChart } from "./charts.js";
import { byId, codeBox, count, make, money, percent, table, whyNotCloud, withCode, words } from "./page_parts.js";

const TASKS = { chat: "chat", call: "function calls", transcribe: "transcription", see: "pictures", decide: "decisions" };
// Each calibration has thresholds of its own; what nobody has measured is one more scale. They never
// share a chart.
const groupOf = (row) => [row.task, row.verified ? "" : "unverified", row.calibration].join(" ");

export class Threshold {
  constructor() {
    this.rows = [];
    this.settings = {};
    this.chosen = {}; // by group: where the line was dragged to
    this.picked = false; // whether somebody chose the group
    this.slider = make("input", { type: "range", step: "0.01", "aria-label": "Threshold" });
    this.slider.addEventListener("input", () => {
      this.chosen[this.group] = Number(this.slider.value);
      this.show();
    });
    byId("task").addEventListener("change", () => { this.picked = true; this.show(); });
    this.line = codeBox("the setting, for config.toml");
    this.once = codeBox("the setting, for one run");
    byId("write-down").append(
      make("p", { class: "note", id: "write-down-words" }), this.line.box,
      make("p", { class: "note", text: "or for one run:" }), this.once.box);
    new ResizeObserver(() => this.show()).observe(byId("histogram"));
  }

  get group() {
    return byId("task").value;
  }

  // Opens on what was asked most.
  take(found, settings) {
    this.settings = settings;
    this.rows = found.rows.map((row) => Object.fromEntries(row.map((value, index) => [found.columns[index], value])));
    const sizes = new Map();
    for (const row of this.rows) sizes.set(groupOf(row), (sizes.get(groupOf(row)) || 0) + 1);
    const groups = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a) || a.localeCompare(b));
    const list = byId("task");
    const before = list.value;
    list.replaceChildren(...(groups.length ? groups : ["chat"]).map((group) => {
      const [task, unverified, calibration] = group.split(" ");
      const alike = groups.filter((other) => other.startsWith(`${task} ${unverified} `)).length;
      return make("option", { value: group, text: `${TASKS[task] || task}${unverified ? ", unverified" : ""}${alike > 1 ? `: ${calibration || "no calibration"}` : ""}${sizes.has(group) ? ` (${count(sizes.get(group))})` : ""}` });
    }));
    if (this.picked && sizes.has(before)) list.value = before;
    this.show();
  }

  show() {
    const rows = this.rows.filter((row) => groupOf(row) === this.group);
    const box = byId("histogram");
    for (const id of ["threshold-caption", "write-down", "expected"]) byId(id).hidden = !rows.length;
    if (!rows.length) {
      box.replaceChildren(make("p", { class: "empty", text: "No confidence has been measured in this time." }));
      byId("outcome").replaceChildren();
      byId("histogram-data").replaceChildren();
      return;
    }
    if (!box.clientWidth) return; // not shown
    const set = usual(rows);
    const range = rangeOf(rows, set);
    const threshold = Math.min(range.high, Math.max(range.low, this.chosen[this.group] ?? set ?? 0.5));
    const svg = histogramChart(rows, threshold, set, range, Math.max(200, box.clientWidth));
    const old = box.querySelector("svg");
    if (old) old.replaceWith(svg);
    else box.replaceChildren(svg, this.slider);
    this.place(box, range);
    this.slider.value = String(threshold);
    this.slider.setAttribute("aria-valuetext", this.tell(rows, threshold, set));
    this.writeDown(rows[0].task, threshold);
    byId("histogram-data").replaceChildren(table(
      ["Confidence", "Would leave", "Would stay"],
      binned(rows, threshold, range).map((bin) => [`${bin.from.toFixed(3)} – ${bin.to.toFixed(3)}`, bin.handed, bin.kept]),
    ));
  }

  // The slider lies over the plot: its thumb, 24 pixels wide, is the line.
  place(box, range) {
    this.slider.min = String(range.low);
    this.slider.max = String(range.high);
    this.slider.style.left = `${HISTOGRAM.left - 12}px`;
    this.slider.style.width = `${box.clientWidth - HISTOGRAM.left - HISTOGRAM.right + 24}px`;
  }

  tell(rows, threshold, set) {
    const kept = rows.filter((row) => row.confidence >= threshold);
    const handed = rows.length - kept.length;
    const doubted = rows.filter((row) => row.threshold !== null && row.confidence < row.threshold);
    const more = handed - doubted.length;
    const facts = [
      ["Threshold", threshold.toFixed(2), set === null ? "none was set" : Math.abs(threshold - set) < 0.005 ? "as it was" : `mostly ${set.toFixed(2)}`],
      ["Would stay", percent(kept.length / rows.length), `${count(kept.length)} of ${count(rows.length)} measured`],
      ["Would leave", percent(handed / rows.length), `${count(handed)} of ${count(rows.length)}${more ? `; ${more > 0 ? "+" : "−"}${count(Math.abs(more))}` : ", as before"}`],
      ["Would have cost", change(rows, threshold, set), "by what these requests cost or saved"],
    ];
    byId("outcome").replaceChildren(...facts.map(([name, value, note]) =>
      make("div", {}, make("dt", { text: name }), make("dd", { text: value }, make("small", { text: note })))));
    byId("expected").replaceChildren(...withCode(expected(kept, rows[0])));
    byId("agreement").textContent = [whatBecame(doubted), streams(rows), others(rows, set)].filter(Boolean).join(" ");
    return `${threshold.toFixed(2)}: ${percent(handed / rows.length)} handed off. ${byId("expected").textContent}`;
  }

  writeDown(task, threshold) {
    const name = task === "transcribe" ? "speech_threshold" : "threshold";
    const value = threshold.toFixed(2);
    const other = task === "transcribe" ? [] : ["max_error", "cloud_share"].filter((each) => this.settings[each] !== null && this.settings[each] !== undefined);
    byId("write-down-words").textContent = `Dragging changes nothing. To hand off below ${value}, write this into config.toml and start the server again${
      other.length ? `; it takes the place of ${other.map((each) => `${each} = ${this.settings[each]}`).join(" and ")}, which must go` : ""}:`;
    this.line.show(`${name} = ${value}`);
    this.once.show(`EDGEWISE_${name.toUpperCase()}=${value} edgewise serve`);
  }
}

// The threshold of most of them.
function usual(rows) {
  const times = new Map();
  for (const { threshold } of rows) if (threshold !== null) times.set(threshold, (times.get(threshold) || 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}

const GONE = ["cloud", "mixed"];

// Of those below their threshold: how many left, and for each reason how many stayed.
function whatBecame(doubted) {
  const stayed = doubted.filter((row) => !GONE.includes(row.source));
  if (!stayed.length) return "";
  const why = new Map();
  for (const row of stayed) {
    const reason = row.degraded ? whyNotCloud(row.degraded) : row.source === "none" ? "the application routes it, or nobody answered" : STAYED[row.code] || words(row.code);
    why.set(reason, (why.get(reason) || 0) + 1);
  }
  const counted = [...why].sort((a, b) => b[1] - a[1]).map(([reason, times]) => `${reason}: ${count(times)}`).join("; ");
  return `Of the ${count(doubted.length)} that were below their threshold, ${count(doubted.length - stayed.length)} went to the cloud and ${count(stayed.length)} did not (${counted}).`;
}

const STAYED = { policy_local_only: "only the device was allowed", kept_in_doubt: "it might not leave", kept_confident: "the beginning that the gate judged was sure enough" };

// What the gate does while an answer is shown: it judges once, at the end of a sentence.
function streams(rows) {
  const found = rows.filter((row) => row.streamed).length;
  return found ? `${count(found)} were long streams: they count with the confidence at which the gate began to show them, after 24 to 40 tokens.` : "";
}

function others(rows, set) {
  const found = rows.filter((row) => row.threshold !== null && row.threshold !== set).length;
  return found ? `${count(found)} had another threshold than the dashed line.` : "";
}

// From the data: the twentieth below the lowest confidence to the one above the highest; the
// threshold that was in force is always on it.
export function rangeOf(rows, set) {
  const values = rows.map((row) => row.confidence).concat(set === null ? [] : [set]);
  const low = Math.max(0, Math.floor(20 * Math.min(...values)) / 20);
  const high = Math.min(1, Math.floor(20 * Math.max(...values) + 1) / 20);
  return high - low >= 0.1 ? { low, high } : { low: Math.max(0, high - 0.1), high: Math.max(0.1, high) };
}

// A calibrated confidence is a chance of being right, so that what it lacks to 1 adds up.
function expected(kept, { task, verified }) {
  if (!kept.length) return "Nothing would stay.";
  if (!verified) return "How many of those that stay are wrong cannot be told: nobody has calibrated this model. `edgewise calibrate --builtin` does.";
  const wrong = kept.reduce((sum, row) => sum + 1 - row.confidence, 0);
  const what = task === "transcribe" ? "transcripts with more than a few wrong words" : "wrong answers";
  return `Among the ${count(kept.length)} that stay, expect about ${wrong < 10 ? wrong.toFixed(1) : count(Math.round(wrong))} ${what} (${percent(wrong / kept.length)}), by their confidences.`;
}

// Kept ones that would have gone would have cost what they avoided; gone ones that would have
// stayed would have saved what they cost. The rest is as it was.
function change(rows, threshold, set) {
  let microdollars = 0;
  for (const row of rows) {
    const then = row.confidence < threshold;
    const before = row.confidence < (row.threshold ?? set ?? threshold);
    if (then && !before && row.source === "local") microdollars += row.avoided;
    if (!then && before && row.source !== "local") microdollars -= row.cost;
  }
  return microdollars > 0 ? `+${money(microdollars)}` : microdollars < 0 ? money(microdollars) : "no change";
}
