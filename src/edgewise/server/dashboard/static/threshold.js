// What another threshold would have done to the requests that were recorded.

import { BINS, HISTOGRAM, binned, histogramChart } from "./charts.js";
import { byId, count, make, money, percent, table } from "./page_parts.js";

const TASKS = { chat: "chat", call: "function calls", transcribe: "transcription", see: "pictures" };

export class Threshold {
  constructor() {
    this.rows = [];
    this.chosen = {}; // by task: where the line was dragged to
    this.slider = make("input", { type: "range", min: "0", max: "1", step: "0.01", "aria-label": "Threshold" });
    this.slider.addEventListener("input", () => {
      this.chosen[this.task] = Number(this.slider.value);
      this.show();
    });
    byId("task").addEventListener("change", () => this.show());
    new ResizeObserver(() => this.show()).observe(byId("histogram"));
  }

  get task() {
    return byId("task").value;
  }

  take(found) {
    this.rows = found.rows.map((row) => Object.fromEntries(row.map((value, index) => [found.columns[index], value])));
    const tasks = [...new Set(this.rows.map((row) => row.task))].sort();
    const list = byId("task");
    const before = list.value;
    list.replaceChildren(...(tasks.length ? tasks : ["chat"]).map((name) => make("option", { value: name, text: TASKS[name] || name })));
    if (tasks.includes(before)) list.value = before;
    this.show();
  }

  show() {
    const rows = this.rows.filter((row) => row.task === this.task);
    const box = byId("histogram");
    byId("threshold-caption").hidden = !rows.length;
    if (!rows.length) {
      box.replaceChildren(make("p", { class: "empty", text: "No confidence has been measured in this time." }));
      byId("outcome").replaceChildren();
      byId("histogram-data").replaceChildren();
      return;
    }
    const set = rows.find((row) => row.threshold !== null)?.threshold ?? null;
    const threshold = this.chosen[this.task] ?? set ?? 0.5;
    const svg = histogramChart(rows, threshold, set, Math.max(200, box.clientWidth));
    const old = box.querySelector("svg");
    if (old) old.replaceWith(svg);
    else box.replaceChildren(svg, this.slider);
    this.place(box);
    this.slider.value = String(threshold);
    this.slider.setAttribute("aria-valuetext", this.tell(rows, threshold, set));
    byId("histogram-data").replaceChildren(table(
      ["Confidence", "Handed off", "Kept"],
      binned(rows, threshold).map((bin, index) => [`${(index / BINS).toFixed(2)} – ${((index + 1) / BINS).toFixed(2)}`, bin.handed, bin.kept]),
    ));
  }

  // The slider lies over the plot: its thumb, 24 pixels wide, is the line.
  place(box) {
    this.slider.style.left = `${HISTOGRAM.left - 12}px`;
    this.slider.style.width = `${box.clientWidth - HISTOGRAM.left - HISTOGRAM.right + 24}px`;
  }

  tell(rows, threshold, set) {
    const then = outcome(rows, threshold);
    const now = set === null ? null : outcome(rows, set);
    const more = now ? then.handed - now.handed : 0;
    const facts = [
      ["Threshold", threshold.toFixed(2), set === null ? "none was set" : Math.abs(threshold - set) < 0.005 ? "as it was" : `it was ${set.toFixed(2)}`],
      ["Handed off", percent(then.handed / rows.length), `${count(then.handed)} of ${count(rows.length)}`],
      ["More than before", more > 0 ? `+${count(more)}` : count(more).replace("-", "−"), now ? `${count(now.handed)} were below ${set.toFixed(2)}` : ""],
      ["Would have cost", change(rows, threshold, set), "by what these requests cost or saved"],
    ];
    byId("outcome").replaceChildren(...facts.map(([name, value, note]) =>
      make("div", {}, make("dt", { text: name }), make("dd", { text: value }, make("small", { text: note })))));
    return `${threshold.toFixed(2)}: ${percent(then.handed / rows.length)} handed off`;
  }
}

export function outcome(rows, threshold) {
  return { handed: rows.filter((row) => row.confidence < threshold).length };
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
