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

// A sentence of ours, with what stands in backquotes as code.
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? make("code", { text: part }) : part));

// Beside a confidence that nobody has measured for the model that answered.
export const unverifiedBadge = (calibration = "") => {
  const borrowed = calibration.endsWith(":borrowed");
  const from = borrowed ? "Measured on the same bits in another runtime" : "Learnt from other models";
  return make("span", {
    class: "badge", text: borrowed ? "borrowed" : "unverified",
    title: `${from}: it promises no risk. \`edgewise calibrate --builtin\` measures this one.`,
  });
};

// A label for an answer that is less than it could be.
export const badge = (text, title = "", kind = "") => make("span", { class: `badge ${kind}`, text, title: title || null });

// Was it right? What edgewise may promise grows from this. `given`: what was said before, if anything.
export function thumbs(given, say) {
  const thumb = (right, sign) => make("button", {
    class: "thumb", type: "button", text: sign, "aria-pressed": String(given === right),
    "aria-label": right ? "right" : "wrong", title: right ? "The answer was right" : "The answer was wrong",
    onclick: (event) => { event.stopPropagation(); say(right); },
  });
  return make("span", { class: "thumbs", role: "group", "aria-label": "Was it right?" }, thumb(true, "✓"), thumb(false, "✗"));
}

// Thumbs beside an answer that was just given, and what became of the verdict.
export function verdict(id, send) {
  const box = make("span", { class: "judged" });
  const show = (given, note = "", failed = false) => box.replaceChildren(
    thumbs(given, async (right) => {
      show(right);
      try { await send(id, right); show(right, right ? "counted as right" : "counted as wrong"); }
      catch (error) { show(null, `not recorded: ${error.message}`, true); }
    }), make("small", { class: failed ? "error" : "note", role: "status", text: note }));
  show(null);
  return box;
}

// The first few of a long list, and the others on demand. What was opened stays so when it is drawn again.
const opened = new Map(); // by name: how far it was scrolled
export function shortened(name, rows, most = 5) {
  if (rows.length <= most + 1) return rows;
  const rest = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${name}: the others`, onscroll: () => { if (opened.has(name)) opened.set(name, rest.scrollTop); } }, ...rows.slice(most));
  const more = make("details", { class: "data more", ontoggle: () => { if (more.open) opened.set(name, opened.get(name) ?? 0); else opened.delete(name); } },
    make("summary", { text: `${count(rows.length - most)} more` }), rest);
  if (opened.has(name)) { more.open = true; requestAnimationFrame(() => { rest.scrollTop = opened.get(name) ?? 0; }); }
  return [...rows.slice(0, most), more];
}

// Puts a text into the clipboard. On plain HTTP browsers only know the old way.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "only-read", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// Copies what `text` returns when it is pressed, and says so.
export function copyButton(text, name = "Copy") {
  const button = make("button", { type: "button", class: "copy", text: "Copy", "aria-label": name });
  button.addEventListener("click", async () => {
    await copy(text());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

// A code that can be copied. `show(text)` changes it.
export function codeBox(name) {
  const code = make("pre", { tabindex: "0", "aria-label": name });
  const box = make("div", { class: "code-box" }, code, copyButton(() => code.textContent, `Copy: ${name}`));
  return { box, show: (text) => { code.textContent = text; } };
}

// Tabs as the keyboard knows them: arrows move between them. `choose(name)` is told.
export function tabs(label, names, choose) {
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": label });
  const pick = (name, focus) => {
    for (const tab of list.children) {
      const chosen = tab.textContent === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen && focus) tab.focus();
    }
    choose(name);
  };
  list.append(...names.map((name) => make("button", { type: "button", role: "tab", text: name, onclick: () => pick(name) })));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = names.indexOf(document.activeElement.textContent);
    pick(names[(at + step + names.length) % names.length], true);
  });
  pick(names[0]);
  return list;
}

export const SOURCES = ["local", "mixed", "cloud", "none"];
export const PLACES = { local: "device", cloud: "cloud", mixed: "both", none: "nobody" };

export const count = (number) => number.toLocaleString("en-GB");

export function money(microdollars) {
  const dollars = microdollars / 1e6;
  if (!dollars) return "$0";
  const size = Math.abs(dollars);
  if (size >= 100) return `${dollars < 0 ? "−" : ""}$${Math.round(size).toLocaleString("en-GB")}`;
  const digits = size >= 1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(size)));
  // Two decimals, or more where there is something in them.
  return `${dollars < 0 ? "−" : ""}$${size.toFixed(Math.max(2, digits)).replace(/(\.\d\d\d*?)0+$/, "$1")}`;
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

// Of what is counted in whole days of UTC, wherever the reader is.
export const dayUtc = (seconds) =>
  new Date(1000 * seconds).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

// What a decision's or an error's code says, in words; the code itself stays beside it.
const WORDS = {
  kept_confident: "sure enough",
  kept_in_doubt: "in doubt, but kept",
  kept_unjudged: "kept, not judged",
  handoff_low_confidence: "the device was in doubt",
  signalled_low_confidence: "in doubt: the application is to route it",
  handoff_busy: "the device was busy",
  fallback_local: "the cloud was asked and did not answer; the device did",
  policy_local_only: "only the device was allowed",
  policy_cloud_only: "only the cloud was allowed",
  prefer_cloud: "the cloud was preferred",
  spoken_local: "the device speaks whatever it can",
  embedded_local: "the device embeds whatever it can",
  cancelled: "the client left",
};
// Why the cloud did not answer: it was never asked, or it was and failed.
const SHUT = {
  private: "the request is private", private_kind: "it holds what must stay here", not_redactable: "it holds what cannot be redacted",
  redaction_failed: "the redaction failed", cooldown: "the last handoff was too short ago", no_key: "no provider has a key",
  budget_paced: "the budget is to last", budget_spent: "the budget is spent", budget_store_away: "the database of budgets is away",
  ledger_unavailable: "the ledger cannot be written", breaker_open: "its circuit is open", provider_unusable: "the provider cannot be opened",
  parts_unsupported: "no provider takes a part of it",
};
const FAILED = {
  cloud_timeout: "it did not answer in time", cloud_rate_limited: "it was asked too often", cloud_server_error: "it had an error of its own",
  cloud_auth_failed: "it refused the key", cloud_rejected: "it refused the request", cloud_cut: "its answer broke off",
};
export const whyNotCloud = (code) => SHUT[code] || FAILED[code] || words(code);

// A decision with what kept the cloud out: a spent budget is no failure of the cloud.
export function told(code, degraded) {
  if (code === "fallback_local" && SHUT[degraded]) return "the device answered: the cloud was not asked";
  return words(code);
}

export function words(code) {
  if (!code) return "";
  return WORDS[code] || code.replace(/^handoff_/, "handed off: ").replace(/^signalled_/, "signalled: ").replaceAll("_", " ");
}
