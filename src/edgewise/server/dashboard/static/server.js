// Talks to the server this page came from. Nothing else is ever asked.

import { byId } from "./page_parts.js";

const KEPT = "edgewise-key"; // until the tab is closed

export function key() {
  return sessionStorage.getItem(KEPT) || "";
}

let asking = null;

// Ask for a key once, however many requests were refused for want of one. `why`: the last one will not do.
function askForKey(why) {
  if (asking) return asking;
  const dialog = byId("key-dialog");
  byId("key-note").textContent = why || "This server asks for a key. It is kept until you close this tab.";
  asking = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEPT, byId("key").value.trim());
      byId("key").value = "";
      asking = null;
      resolve();
    }, { once: true });
  });
  dialog.showModal();
  return asking;
}

export async function ask(path, options = {}) {
  for (;;) {
    const shown = key();
    const headers = { ...(options.headers || {}) };
    if (shown) headers.authorization = `Bearer ${shown}`;
    const response = await fetch(path, { ...options, headers });
    const why = await refusal(response);
    if (!why) return response;
    if (shown === key()) await askForKey(shown ? why : ""); // else another one was typed in meanwhile
  }
}

const WHY = {
  invalid_api_key: "That key was not the right one.",
  key_expired: "That key has expired, or was replaced.",
  role_not_allowed: "That key reads /metrics and the usage, not this page. A key with the role admin shows everything.",
};

// Why a key will not do; empty where it will.
async function refusal(response) {
  if (response.status !== 401 && response.status !== 403) return "";
  const { error } = await response.clone().json().catch(() => ({}));
  return WHY[error?.code] || (response.status === 401 ? WHY.invalid_api_key : "");
}

export async function getJson(path) {
  const response = await ask(path);
  if (!response.ok) throw new Error(await reason(response));
  return response.json();
}

export function post(path, body) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

// Whether an answer was right. Raises with why it was not recorded.
export async function feedback(id, right) {
  const response = await post("/edgewise/feedback", { id, right });
  if (!response.ok) throw new Error(await reason(response));
}

export async function reason(response) {
  try {
    const body = await response.json();
    return body.error?.message || `status ${response.status}`;
  } catch {
    return `status ${response.status}`;
  }
}

// The events of a stream until it ends: each with its name, "" where it has none.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const lines = (start) => part.split("\n").filter((line) => line.startsWith(start)).map((line) => line.slice(start.length)).join("\n");
      const data = lines("data: ");
      if (data && data !== "[DONE]") yield { name: lines("event: "), data: JSON.parse(data) };
    }
  }
}
