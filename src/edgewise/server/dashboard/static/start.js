// How to get to the first request: where to point a client, what would answer, and one to try.

import { CLIENTS } from "./code.js";
import { PLACES, byId, codeBox, copyButton, duration, make, tabs, words } from "./page_parts.js";
import { ask, reason } from "./server.js";

let keyed = false;
let showCode = () => {};

export function startStart() {
  byId("base-url").textContent = `${location.origin}/v1`;
  byId("base-url").after(copyButton(() => byId("base-url").textContent, "Copy the base URL"));
  const code = codeBox("a first request");
  let chosen = "curl";
  showCode = () => code.show(CLIENTS[chosen](keyed));
  byId("clients").append(tabs("Client", Object.keys(CLIENTS), (name) => { chosen = name; showCode(); }), code.box);
  byId("try").addEventListener("click", tryIt);
}

const fact = (colour, text, more, command) => make("li", {},
  make("span", { class: `dot ${colour}`, "aria-hidden": "true" }),
  make("div", {}, make("strong", { text }), more ? make("span", { class: "note", text: more }) : null,
    command ? make("span", { class: "command" }, make("code", { text: command }), copyButton(() => command, `Copy: ${command}`)) : null));

// What would answer, as the overview says.
export function showReadiness({ device, providers, keyed: needed }) {
  keyed = needed;
  showCode();
  const local = {
    ready: () => fact("good", `The device is ready: ${device.model}`),
    starting: () => fact("warn", "The device is starting", "Its model is being looked for."),
    missing: () => fact("bad", "There is no model on the device", device.trouble, "edgewise setup"),
  }[device.state]();
  const healthy = providers.filter((each) => each.state === "closed");
  const cloud = providers.length
    ? fact(healthy.length ? "good" : "warn", `The cloud is set up: ${providers.map((each) => each.name).join(", ")}`, "It answers what the device is in doubt about.")
    : fact("warn", "No cloud provider has a key", "The device answers everything and says where it is in doubt. To add a key, and then start the server again:", "edgewise auth set openai");
  const key = keyed
    ? fact("good", "Clients need a key", "In the variable GATEWAY_KEY of the programs here. A key for one more app, on the server’s machine:", "edgewise keys add NAME")
    : fact("good", "Clients need no key", "Where a client asks for one, any word will do.");
  byId("readiness").replaceChildren(local, cloud, key);
}

export function showEmpty(empty) {
  byId("start").classList.toggle("first", empty);
  if (empty) byId("start").open = true;
  byId("overview").classList.toggle("nothing-yet", empty);
}

async function tryIt() {
  const out = byId("try-result");
  byId("try").disabled = true;
  out.className = "note";
  out.textContent = "Asking: What is the capital of Australia?";
  try {
    const response = await ask("/v1/chat/completions", {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "auto", max_tokens: 64, messages: [{ role: "user", content: "What is the capital of Australia?" }] }),
    });
    if (!response.ok) throw new Error(await reason(response));
    const reply = await response.json();
    const { source, decision, total_ms: took } = reply.edgewise;
    out.replaceChildren(
      make("span", { class: `pill ${source}`, text: PLACES[source] }), " ",
      make("span", { class: "answer", text: reply.choices[0].message.content || "no answer" }),
      ` (${words(decision.code)}, ${duration(took)})`);
  } catch (error) {
    out.className = "error";
    out.textContent = error.message;
  } finally {
    byId("try").disabled = false;
  }
}
