// The pictures. Each is a plain SVG with a name for those who cannot see it; its numbers stand in
// a table beside it.

import { PLACES, SOURCES, clock, count, day, draw, duration, make, unverifiedBadge } from "./page_parts.js";

const NARROW = 640; // below this there is room for fewer labels

function canvas(width, height, name) {
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name });
}

// A round number at or above, and how to divide the way to it.
const TOPS = [[1, 5], [1.5, 3], [2, 4], [3, 3], [4, 4], [5, 5], [6, 3], [8, 4], [10, 5]];
function scaleTo(most) {
  if (most <= 3) return { top: Math.max(1, Math.ceil(most)), step: 1 };
  const power = 10 ** Math.floor(Math.log10(most));
  const [top, parts] = TOPS.find(([each]) => each * power >= most);
  return { top: top * power, step: (top * power) / parts };
}

// `label`: of where a stretch begins; `say`: of a number.
export function timelineChart(stretches, width, { name = "Requests", say = count, label = null, height = width > NARROW / 1.3 ? 262 : 190 } = {}) {
  const totals = stretches.map((each) => SOURCES.reduce((sum, source) => sum + (each[source] || 0), 0));
  const scale = scaleTo(Math.max(...totals, 1));
  const values = Array.from({ length: Math.round(scale.top / scale.step) + 1 }, (_, index) => index * scale.step);
  const [left, right, top, bottom] = [14 + 6.5 * Math.max(2, ...values.map((value) => say(value).length)), 4, 8, 24];
  const plot = { width: width - left - right, height: height - top - bottom };
  const svg = canvas(width, height, `${name} over time: ${say(totals.reduce((a, b) => a + b, 0))} in all, at most ${say(Math.max(...totals))} in one stretch.`);
  for (const value of values) {
    const y = top + plot.height * (1 - value / scale.top);
    svg.append(
      draw("line", { class: "axis", x1: left, x2: width - right, y1: y, y2: y }),
      draw("text", { x: left - 8, y: y + 4, "text-anchor": "end", text: say(value) }),
    );
  }
  const step = Math.min(stretches.length < 4 ? 64 : 160, plot.width / stretches.length); // a lone bar is a bar
  const span = stretches[stretches.length - 1].start - stretches[0].start;
  label ??= span > 2 * 86400 ? (at) => day(at) : (at) => clock(at, false);
  const every = Math.ceil(stretches.length / (width > NARROW ? 8 : 4));
  stretches.forEach((each, index) => {
    let y = top + plot.height;
    for (const source of SOURCES) {
      if (!each[source]) continue;
      const size = Math.max(1.5, (plot.height * each[source]) / scale.top);
      y -= size;
      svg.append(draw("rect", { class: `bar ${source}`, x: left + index * step + 1, y, width: Math.max(1, step - 2), height: size, rx: 1.5 }));
    }
    if (index % every === 0)
      svg.append(draw("text", { x: left + index * step, y: height - 6, text: label(each.start) }));
  });
  return svg;
}

export function latencyChart(report, width) {
  const rows = [];
  for (const [name, figures] of [["whole answer", report.total_ms], ["first text", report.first_token_ms]])
    for (const source of ["local", "mixed", "cloud"])
      if (figures[source]) rows.push({ name, source, ...figures[source] });
  if (!rows.length) return null;
  const [left, right, top, line] = [104, 22, 10, 40];
  const height = top + rows.length * line + 26;
  const low = Math.floor(Math.log10(Math.max(0.1, Math.min(...rows.map((row) => row.p50)))));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...rows.map((row) => row.p99), 1))));
  const x = (ms) => left + ((width - left - right) * (Math.log10(Math.max(10 ** low, ms)) - low)) / (high - low);
  const svg = canvas(width, height, `Latency by source, on a logarithmic scale: ${rows.map((row) => `${PLACES[row.source]}, ${row.name}: median ${duration(row.p50)}, 99 % within ${duration(row.p99)}`).join("; ")}.`);
  for (let power = low; power <= high; power += 1) {
    svg.append(
      draw("line", { class: "axis", x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: height - 22 }),
      draw("text", { x: x(10 ** power), y: height - 5, "text-anchor": "middle", text: duration(10 ** power) }),
    );
  }
  rows.forEach((row, index) => {
    const y = top + index * line + line / 2;
    svg.append(
      draw("text", { class: "label", x: 0, y: y - 1, text: PLACES[row.source] }),
      draw("text", { x: 0, y: y + 14, text: row.name }),
      draw("g", { class: row.source },
        draw("line", { class: "range", x1: x(row.p50), x2: x(row.p99), y1: y, y2: y }),
        draw("circle", { class: "mark", cx: x(row.p50), cy: y, r: 5.5 }),
        draw("circle", { class: "hollow", cx: x(row.p90), cy: y, r: 3.5 }),
        draw("line", { class: "range", x1: x(row.p99), x2: x(row.p99), y1: y - 5, y2: y + 5 })),
    );
  });
  return svg;
}

const BINS = 25;
export const HISTOGRAM = { left: 34, right: 6, top: 14, bottom: 24 };

// Stacked: what would be handed off at the threshold, and what would be kept. `range` is from where
// to where the confidences lie.
export function histogramChart(rows, threshold, set, range, width) {
  const height = 230;
  const { left, right, top, bottom } = HISTOGRAM;
  const plot = { width: width - left - right, height: height - top - bottom };
  const bins = binned(rows, threshold, range);
  const scale = scaleTo(Math.max(...bins.map((bin) => bin.kept + bin.handed), 1));
  const svg = canvas(width, height, `Confidences of ${count(rows.length)} requests, with the threshold at ${threshold.toFixed(2)}.`);
  for (let value = 0; value <= scale.top; value += scale.step) {
    const y = top + plot.height * (1 - value / scale.top);
    svg.append(
      draw("line", { class: "axis", x1: left, x2: width - right, y1: y, y2: y }),
      draw("text", { x: left - 8, y: y + 4, "text-anchor": "end", text: count(value) }),
    );
  }
  const step = plot.width / BINS;
  bins.forEach((bin, index) => {
    let y = top + plot.height;
    for (const part of ["handed", "kept"]) {
      if (!bin[part]) continue;
      const size = (plot.height * bin[part]) / scale.top;
      y -= size;
      svg.append(draw("rect", { class: part, x: left + index * step + 1, y, width: step - 2, height: size, rx: 1.5 }));
    }
  });
  const at = (value) => left + (plot.width * (value - range.low)) / (range.high - range.low);
  const twentieths = [1, 2, 4].find((each) => (20 * (range.high - range.low)) / each <= 7);
  for (let value = Math.ceil((20 * range.low - 0.001) / twentieths) * twentieths; value <= 20 * range.high + 0.001; value += twentieths)
    svg.append(draw("text", { x: at(value / 20), y: height - 6, "text-anchor": value / 20 > range.high - 0.01 ? "end" : "middle", text: (value / 20).toFixed(2) }));
  if (set !== null)
    svg.append(draw("line", { class: "line set", x1: at(set), x2: at(set), y1: top, y2: top + plot.height }));
  const x = at(threshold);
  svg.append(
    draw("line", { class: "line", x1: x, x2: x, y1: 2, y2: top + plot.height }),
    draw("rect", { class: "grip", x: x - 7, y: top + plot.height / 2 - 15, width: 14, height: 30, rx: 5 }),
    draw("path", { class: "grip-bars", d: `M${x - 2.5} ${top + plot.height / 2 - 6}v12M${x + 2.5} ${top + plot.height / 2 - 6}v12` }),
  );
  return svg;
}

export function binned(rows, threshold, range) {
  const step = (range.high - range.low) / BINS;
  const bins = Array.from({ length: BINS }, (_, index) => ({ from: range.low + index * step, to: range.low + (index + 1) * step, kept: 0, handed: 0 }));
  for (const row of rows)
    bins[Math.min(BINS - 1, Math.max(0, Math.floor((row.confidence - range.low) / step)))][row.confidence < threshold ? "handed" : "kept"] += 1;
  return bins;
}

export function confidenceBar(confidence, source, verified, calibration) {
  const svg = draw("svg", { width: 52, height: 6, "aria-hidden": "true", class: source },
    draw("rect", { class: "back", width: 52, height: 6, rx: 3 }),
    draw("rect", { class: "fill", width: Math.max(2, 52 * confidence), height: 6, rx: 3 }));
  const cell = make("span", { class: "bar-cell" }, svg, make("span", { text: confidence.toFixed(2) }));
  if (!verified) cell.append(unverifiedBadge(calibration));
  return cell;
}
