// Which local models are in memory: load, pin and let them go.

import { byId, clock, make } from "./page_parts.js";
import { getJson, post, reason } from "./server.js";

const AGAIN_MS = 20000;
let begun = 0;
let mayChange = true; // an app's key only looks
const busy = new Set(); // names that this page waits for

// With the overview, but not as often; soon while one is being loaded.
export async function refreshModels(now = false, may = mayChange) {
  mayChange = may;
  if (!now && begun && performance.now() - begun < AGAIN_MS) return;
  begun = performance.now();
  try {
    const { models } = await getJson("/edgewise/models");
    show(models);
    if (models.some((each) => each.state === "loading")) setTimeout(() => refreshModels(true), 700);
  } catch (error) {
    tell(error.message);
  }
}

const size = (bytes) => (bytes ? `${(bytes / 1e9).toFixed(1)} GB` : "");

// Beside the confidences where there is room for it, else below them. Once: nothing jumps later.
let placed = false;
function place() {
  const [lower, right] = [byId("lower"), byId("right-stack")];
  if (placed || !lower.clientHeight) return;
  placed = true;
  lower.style.alignItems = "start"; // as high as what is in them
  const room = right.previousElementSibling.offsetHeight - right.offsetHeight;
  lower.style.alignItems = "";
  if (room > 60 + 56 * byId("models-list").children.length) right.append(byId("models"));
}

function show(models) {
  byId("models").hidden = !models.length;
  byId("models-list").replaceChildren(...models.map((each) => {
    const how = [
      each.state === "loading" ? `loading${each.progress === null ? "…" : `: ${Math.round(100 * each.progress)} %`}` : each.state === "loaded" ? "in memory" : "not in memory",
      each.pinned ? "pinned" : each.given ? "stays" : null, each.until ? `until ${clock(each.until, false)}` : null, size(each.needed_bytes) ? `about ${size(each.needed_bytes)} of memory` : null,
    ].filter(Boolean).join(" · ");
    const row = make("div", { class: "row" },
      make("span", { class: `dot ${{ loaded: "good", loading: "warn" }[each.state] || ""}`, "aria-hidden": "true" }),
      make("span", { class: "grow", text: each.name }, make("small", { text: each.own ? `answers where none is named · ${how}` : how })),
      make("span", { class: "row-tools" }, ...tools(each)));
    if (each.state === "loading" && each.progress !== null) {
      const bar = make("span");
      bar.style.width = `${100 * each.progress}%`;
      row.append(make("div", { class: "gauge", role: "progressbar", "aria-label": `Loading ${each.name}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * each.progress) }, bar));
    }
    return row;
  }));
  place();
}

function tools(each) {
  const button = (action, text) => make("button", { type: "button", class: "copy", text, disabled: busy.has(each.name), "aria-label": `${text}: ${each.name}`, onclick: () => change(each.name, action) });
  if (!mayChange || each.state === "loading" || each.given) return [];
  if (each.state === "unloaded") return [button("load", "Load")];
  return [each.pinned ? button("unpin", "Unpin") : button("pin", "Pin"), button("unload", "Unload")];
}

async function change(model, action) {
  busy.add(model);
  tell("");
  setTimeout(() => refreshModels(true), 300); // it is seen to load
  try {
    const response = await post("/edgewise/models", { model, action });
    if (!response.ok) throw new Error(await reason(response));
  } catch (error) {
    tell(error.message);
  } finally {
    busy.delete(model);
    refreshModels(true);
  }
}

function tell(words) {
  byId("models-trouble").textContent = words;
  byId("models-trouble").hidden = !words;
}
