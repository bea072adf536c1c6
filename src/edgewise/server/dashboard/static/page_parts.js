// Small makers of elements and words. Text goes in as text, never as markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function table(columns, rows) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col", text: name })));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", { text: String(cell) }))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

// Beside a confidence that nobody has measured for the model that answered.
export const unverifiedBadge = () => make("span", {
  class: "badge", text: "unverified",
  title: "Learnt from other models: it promises no risk. `edgewise calibrate --builtin` measures this one.",
});

export const SOURCES = ["local", "mixed", "cloud", "none"];
export const PLACES = { local: "device", cloud: "cloud", mixed: "both", none: "nobody" };

export const count = (number) => number.toLocaleString("en-GB");

export function money(microdollars) {
  const dollars = microdollars / 1e6;
  if (!dollars) return "$0";
  const size = Math.abs(dollars);
  if (size >= 100) return `${dollars < 0 ? "−" : ""}$${Math.round(size).toLocaleString("en-GB")}`;
  const digits = size >= 1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(size)));
  return `${dollars < 0 ? "−" : ""}$${size.toFixed(Math.max(2, digits))}`;
}

export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60000) return `${(milliseconds / 1000).toFixed(milliseconds < 10000 ? 1 : 0).replace(/\.0$/, "")} s`;
  return `${Math.round(milliseconds / 60000)} min`;
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const whole = 100 * share;
  return `${whole > 0 && whole < 10 ? whole.toFixed(1) : Math.round(whole)} %`;
}

export const clock = (seconds, withSeconds = true) =>
  new Date(1000 * seconds).toLocaleTimeString("en-GB", {
    hour: "2-digit", minute: "2-digit", ...(withSeconds ? { second: "2-digit" } : {}),
  });

export const day = (seconds) =>
  new Date(1000 * seconds).toLocaleDateString("en-GB", { day: "numeric", month: "short" });

// What a decision's or an error's code says, in words; the code itself stays beside it.
const WORDS = {
  kept_confident: "sure enough",
  kept_in_doubt: "in doubt, but kept",
  kept_unjudged: "kept, not judged",
  handoff_low_confidence: "the device was in doubt",
  signalled_low_confidence: "in doubt: the application is to route it",
  fallback_local: "the cloud failed, so the device answered",
  policy_local_only: "only the device was allowed",
  policy_cloud_only: "only the cloud was allowed",
  prefer_cloud: "the cloud was preferred",
  embedded_local: "the device embeds whatever it can",
  cancelled: "the client left",
};
export function words(code) {
  if (!code) return "";
  return WORDS[code] || code.replace(/^handoff_/, "handed off: ").replace(/^signalled_/, "signalled: ").replaceAll("_", " ");
}
