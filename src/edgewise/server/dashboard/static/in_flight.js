// What is running now: who works on it, how fast, how sure, and when the other side takes over.

import { PLACES, byId, count, draw, duration, make, told, unverifiedBadge, whyNotCloud, words } from "./page_parts.js";

const LINGER_MS = 4000; // so that a short one can be seen at all
const POINTS = 120; // of a line
const KINDS = { "chat.completions": "chat", responses: "responses", messages: "messages", embeddings: "embeddings", "audio.transcriptions": "transcription", realtime: "live captions" };
const shown = new Map(); // by number
let ticking = null;

export function showInFlight({ requests, queues, count: all }) {
  const running = new Set(requests.map((each) => each.number));
  for (const request of requests) {
    const item = shown.get(request.number) || add(request.number);
    item.at = performance.now() - request.elapsed_ms;
    item.request = request;
    if (request.confidence !== null && (request.place === "local" || request.confidence !== item.points.at(-1))) item.points.push(request.confidence);
    if (item.points.length > POINTS) item.points.splice(0, 2);
    show(item);
  }
  for (const [number, item] of shown) if (!running.has(number) && !item.ended) end(number, item);
  byId("queue-line").textContent = queueLine(all, queues);
  noteEmpty();
}

// How one that has just ended went.
export function showOutcome(row) {
  for (const item of shown.values())
    if (row.id && item.request.id === row.id) {
      item.outcome.textContent = [row.status >= 400 || row.left ? "failed" : null, told(row.code, row.degraded), row.degraded ? `the cloud: ${whyNotCloud(row.degraded)}` : null].filter(Boolean).join(" · ");
      if (row.source) item.box.classList.add(row.source);
      item.time.textContent = duration(row.total_ms);
    }
}

// Each model has slots of its own: they are never added up. What waits beyond them waits, whoever holds it.
export function queueLine(running, queues) {
  const waits = (each) => each.waiting + Math.max(0, each.busy - each.slots);
  const shown = queues.length > 1 ? queues.filter((each) => each.busy || each.waiting) : queues;
  const line = (each) => `${queues.length > 1 ? `${each.model}: ` : ""}${Math.min(each.slots, each.busy)} of ${each.slots} local slot${each.slots > 1 ? "s" : ""} busy${waits(each) ? `, ${count(waits(each))} waiting` : ""}`;
  return [`${count(running)} running`, ...shown.map(line)].join(" · ");
}

function add(number) {
  const parts = Object.fromEntries(["what", "way", "sure", "speed", "time", "outcome"].map((name) => [name, make("div", { class: `run-${name}` })]));
  const box = make("li", { class: "run", "data-number": number }, parts.what, parts.way, parts.sure, parts.speed, parts.time, parts.outcome);
  const item = { ...parts, box, points: [], ended: false };
  shown.set(number, item);
  byId("in-flight").append(box);
  ticking ??= setInterval(tick, 250);
  return item;
}

function show(item) {
  const { request } = item;
  item.what.replaceChildren(make("strong", { text: KINDS[request.endpoint] || request.endpoint }), make("small", { text: [request.asked_for, request.client].filter(Boolean).join(" · ") }));
  item.way.replaceChildren(...way(request));
  item.sure.replaceChildren(...(request.confidence === null ? [make("small", { text: request.place === "local" ? "no confidence yet" : "" })] : confidence(item)));
  item.speed.replaceChildren(
    make("span", { text: `${count(request.tokens)} ${request.place === "cloud" ? "piece" : "token"}${request.tokens === 1 ? "" : "s"}` }),
    make("small", { text: request.tokens_per_second === null ? "" : `${request.tokens_per_second.toFixed(request.tokens_per_second < 10 ? 1 : 0)} a second` }));
  tickOne(item);
}

// Device → cloud, as it went.
function way(request) {
  const parts = [];
  const step = (place, text, now) => parts.push(make("span", { class: `pill ${place || "none"}${now ? " now" : ""}`, text }));
  const last = request.turns.at(-1);
  if (last) {
    step(last.to === "cloud" ? "local" : "cloud", last.to === "cloud" ? "device" : "cloud", false);
    parts.push(make("span", { class: "arrow", text: "→", title: `${words(last.code)}, after ${duration(last.at_ms)}` }));
  }
  const place = last && request.place !== last.to ? last.to : request.place;
  step(place, place ? PLACES[place] : "starting", true);
  const by = place === request.place ? [request.place === "cloud" ? request.backend : "", request.model].filter(Boolean).join(" ") : "";
  const doing = request.waiting ? "waiting for its turn" : last && !request.tokens ? `handed over: ${words(last.code)}` : request.place && !request.tokens ? "reading" : "";
  parts.push(make("small", { text: [by, doing].filter(Boolean).join(" · ") }));
  return parts;
}

function confidence(item) {
  const { confidence: now, threshold, confidence_verified: verified } = item.request;
  const [width, height] = [120, 30];
  const y = (value) => 2 + (height - 4) * (1 - value);
  const step = width / Math.max(12, item.points.length - 1);
  const line = item.points.map((value, index) => `${index ? "L" : "M"}${(index * step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const svg = draw("svg", { class: `spark ${threshold !== null && now < threshold ? "low" : "high"}`, viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Confidence ${now.toFixed(2)}${threshold === null ? "" : `, threshold ${threshold.toFixed(2)}`}` });
  if (threshold !== null) svg.append(draw("line", { class: "mark-line", x1: 0, x2: width, y1: y(threshold), y2: y(threshold) }));
  svg.append(draw("path", { d: line }), draw("circle", { cx: ((item.points.length - 1) * step).toFixed(1), cy: y(now), r: 2.5 }));
  const parts = [svg, make("span", { class: "spark-value", text: now.toFixed(2) })];
  if (!verified) parts.push(unverifiedBadge());
  return parts;
}

function end(number, item) {
  item.ended = true;
  item.box.classList.add("done");
  setTimeout(() => {
    item.box.remove();
    shown.delete(number);
    noteEmpty();
    if (!shown.size) { clearInterval(ticking); ticking = null; }
  }, LINGER_MS);
}

function tickOne(item) {
  if (!item.ended) item.time.textContent = `${((performance.now() - item.at) / 1000).toFixed(1)} s`;
}

const tick = () => shown.forEach(tickOne);

function noteEmpty() {
  byId("in-flight-empty").hidden = shown.size > 0;
}
