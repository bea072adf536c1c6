// Asks the server as any client would: device and cloud side by side, or a chat.

import { curl, openai } from "./code.js";
import { compare } from "./compare.js";
import { current } from "./overview.js";
import { PLACES, byId, codeBox, duration, make, money, tabs, told, verdict, whyNotCloud } from "./page_parts.js";
import { ask, events, feedback, getJson, reason } from "./server.js";

const SAMPLE_TOOLS = [{
  type: "function",
  function: {
    name: "set_timer",
    description: "Set a timer.",
    parameters: { type: "object", properties: { minutes: { type: "integer", description: "How long" } }, required: ["minutes"] },
  },
}];

// The standard and the small model are right about these, or in doubt.
const EXAMPLES = [
  "What is the capital of Australia?",
  "Explain in two sentences why the sky is blue.",
  "What is 17 times 23?",
  "What is the chemical symbol for gold?",
];

const messages = [];
const pictures = []; // data URLs
let running = null;

export async function startPlayground() {
  byId("tools").value = JSON.stringify(SAMPLE_TOOLS, null, 1);
  byId("with-tools").addEventListener("change", showMode);
  byId("knobs").addEventListener("submit", (event) => event.preventDefault());
  byId("images").addEventListener("change", addPictures);
  byId("stop").addEventListener("click", () => running?.abort());
  byId("clear").addEventListener("click", clear);
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  byId("prompt").addEventListener("keydown", (event) => {
    // Enter also ends what an input method composes; that must not send.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  });
  for (const each of document.querySelectorAll("input[name=mode]")) each.addEventListener("change", showMode);
  byId("examples").append(...EXAMPLES.map((text) => make("button", { type: "button", class: "chip", text, onclick: () => { byId("prompt").value = text; byId("prompt").focus(); showCode(); } })));
  startCode();
  showMode();
  const { data } = await getJson("/v1/models");
  byId("model").replaceChildren(...[...new Set([...data.map((each) => each.id), "local", "cloud"])].map((id) => make("option", { text: id })));
}

const isCompare = () => byId("mode-compare").checked;

function showMode() {
  byId("sides").hidden = !isCompare();
  byId("log").hidden = isCompare();
  byId("clear").hidden = isCompare();
  for (const each of document.querySelectorAll(".chat-only")) each.hidden = isCompare();
  byId("tools-label").hidden = isCompare() || !byId("with-tools").checked;
  showCode();
}

let showCode = () => {};

// The request that Send would make now, as a program.
function startCode() {
  const code = codeBox("this request");
  const write = { curl, "Python (openai)": openai };
  let chosen = "curl";
  showCode = () => {
    if (!byId("as-code").open) return;
    const text = byId("prompt").value.trim() || EXAMPLES[0];
    const asked = body(isCompare() ? [{ role: "user", content: text }] : [...messages, { role: "user", content: text }]);
    delete asked.stream_options;
    code.show(write[chosen]({ ...asked, stream: undefined, ...(Object.keys(asked.metadata).length ? {} : { metadata: undefined }) }, current()?.keyed));
  };
  byId("as-code").append(tabs("Language", Object.keys(write), (name) => { chosen = name; showCode(); }), code.box);
  byId("as-code").addEventListener("toggle", () => showCode());
  for (const id of ["prompt", "knobs"]) byId(id).addEventListener("input", () => { try { showCode(); } catch { code.show("The tools are not JSON."); } });
}

function clear() {
  running?.abort();
  messages.length = 0;
  byId("log").replaceChildren(make("p", { class: "empty", id: "log-empty", text: "The conversation will be here. It stays in this page." }));
  byId("prompt").focus();
}

async function addPictures() {
  for (const file of byId("images").files) pictures.push(await asDataUrl(file));
  byId("images").value = "";
  showPictures();
}

function asDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function showPictures() {
  byId("pictures").replaceChildren(...pictures.map((url, index) =>
    make("button", { type: "button", "aria-label": `Remove image ${index + 1}`, onclick: () => { pictures.splice(index, 1); showPictures(); } },
      make("img", { src: url, alt: `Image ${index + 1}, to be sent` }))));
}

function send() {
  const text = byId("prompt").value.trim();
  if (!text || running) return;
  const images = pictures.splice(0);
  showPictures();
  const content = images.length ? [{ type: "text", text }, ...images.map((url) => ({ type: "image_url", image_url: { url } }))] : text;
  if (isCompare()) {
    running = new AbortController();
    busy(true);
    byId("prompt").select(); // what is typed next is the next prompt
    compare(body([{ role: "user", content }]), text, running.signal).finally(() => { running = null; busy(false); });
    return;
  }
  byId("prompt").value = "";
  messages.push({ role: "user", content });
  const turn = addTurn("user", "You");
  turn.said.before(...images.map((url, index) => make("img", { src: url, alt: `Image ${index + 1}` })));
  turn.said.textContent = text;
  answer();
}

function addTurn(role, who) {
  byId("log-empty")?.remove();
  const said = make("div", { class: "said" });
  const name = make("p", { class: "who" }, who);
  const facts = make("p", { class: "facts" });
  const box = make("div", { class: `turn ${role}` }, name, said, facts);
  byId("log").append(box);
  scroll();
  return { box, said, name, facts };
}

const scroll = () => { byId("log").scrollTop = byId("log").scrollHeight; };

function busy(yes) {
  byId("stop").hidden = !yes;
  byId("send").disabled = yes;
}

// What a comparison leaves out, it decides itself: who answers.
function body(turns) {
  const metadata = {};
  const chosen = isCompare() ? [["threshold", "knob-threshold"]] : [["policy", "policy"], ["handoff", "handoff"], ["threshold", "knob-threshold"]];
  for (const [name, id] of chosen) if (byId(id).value) metadata[name] = byId(id).value;
  if (!isCompare() && byId("private").checked) metadata.privacy = "private";
  const system = byId("system").value.trim();
  const asked = {
    model: isCompare() ? "auto" : byId("model").value, messages: [...(system ? [{ role: "system", content: system }] : []), ...turns],
    max_tokens: Number(byId("max-tokens").value) || 256, stream: true, stream_options: { include_usage: true }, metadata,
  };
  if (!isCompare() && byId("with-tools").checked) asked.tools = JSON.parse(byId("tools").value);
  return asked;
}

async function answer() {
  byId("knob-error").textContent = "";
  let asked;
  try {
    asked = body(messages);
  } catch (error) {
    byId("knob-error").textContent = `The tools are not JSON: ${error.message}`;
    return;
  }
  const turn = addTurn("assistant", "Answer");
  const log = byId("log");
  running = new AbortController();
  log.setAttribute("aria-busy", "true"); // read aloud when it is whole, not token by token
  busy(true);
  try {
    await take(turn, await ask("/v1/chat/completions", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(asked), signal: running.signal,
    }));
  } catch (error) {
    turn.facts.append(make("span", { class: "error", text: error.name === "AbortError" ? "Stopped." : error.message }));
  } finally {
    running = null;
    log.setAttribute("aria-busy", "false");
    busy(false);
    showCode();
    scroll();
  }
}

async function take(turn, response) {
  if (!response.ok) throw new Error(await reason(response));
  const calls = [];
  let text = "";
  for await (const { data: event } of events(response)) {
    if (event.error) throw new Error(event.error.message);
    const delta = event.choices?.[0]?.delta || {};
    if (delta.content) { text += delta.content; turn.said.append(delta.content); scroll(); }
    for (const call of delta.tool_calls || []) calls[call.index] = call;
    if (event.edgewise?.source) showSource(turn, event.edgewise);
  }
  const message = { role: "assistant", content: text };
  if (calls.length) message.tool_calls = calls.map(({ id, type, function: called }) => ({ id, type, function: called }));
  messages.push(message);
  if (calls.length) showCalls(turn, calls);
}

function showSource(turn, edgewise) {
  turn.box.classList.remove("local", "cloud", "mixed", "none");
  turn.box.classList.add(edgewise.source);
  turn.name.replaceChildren("Answer", make("span", { class: `pill ${edgewise.source}`, text: PLACES[edgewise.source] }));
  if (!edgewise.decision) return;
  if (edgewise.source !== "none" && !byId("private").checked) turn.name.append(verdict(edgewise.id, feedback));
  const { decision } = edgewise;
  turn.facts.textContent = [
    edgewise.model,
    edgewise.confidence === null ? null : `${edgewise.confidence_verified ? "" : "unverified "}confidence ${edgewise.confidence.toFixed(2)}`,
    told(decision.code, edgewise.degraded_code), edgewise.needs_cloud_handoff && edgewise.source !== "cloud" ? "in doubt" : null, edgewise.degraded ? `without the cloud: ${whyNotCloud(edgewise.degraded_code)}` : null,
    duration(edgewise.total_ms), money(edgewise.cost_microdollars),
  ].filter(Boolean).join(" · ");
  turn.facts.title = decision.reason;
  if (edgewise.source === "none") turn.said.textContent = "Not answered: it should be handed off, and the application is to do it.";
}

// A called tool is yours to run: what it returned is typed in, and the answer goes on.
function showCalls(turn, calls) {
  const results = calls.map((call) => {
    const input = make("input", { type: "text", "aria-label": `Result of ${call.function.name}`, placeholder: "what it returned" });
    turn.box.append(make("div", { class: "call" }, make("pre", { text: `${call.function.name}(${call.function.arguments})` }),
      make("label", {}, "Result", make("span", { class: "inline" }, input))));
    return { call, input };
  });
  const go = make("button", { type: "button", text: calls.length > 1 ? "Send results" : "Send result" });
  go.addEventListener("click", () => {
    for (const { call, input } of results) {
      messages.push({ role: "tool", tool_call_id: call.id, content: input.value || "done" });
      input.disabled = true;
    }
    go.remove();
    answer();
  });
  turn.box.lastElementChild.append(go);
}
