// Live captions over /v1/realtime, from the microphone or from a file played at its own speed.

import { byId, make } from "./page_parts.js";
import { key } from "./server.js";
import { FORMATS, stamp } from "./subtitles.js";

const RATE = 24000; // as OpenAI's realtime API has it
let session = null;
let lines = []; // what was said, for a file

export function startCaptions() {
  byId("listen").addEventListener("click", () => begin(fromMicrophone));
  byId("sound").addEventListener("change", () => {
    const [file] = byId("sound").files;
    byId("sound").value = "";
    if (file) begin((send, context, done) => fromFile(file, send, context, done));
  });
  byId("quiet").addEventListener("click", () => session?.end());
  byId("exports").append(...Object.keys(FORMATS).map((format) =>
    make("button", { type: "button", text: format, disabled: "", "aria-label": `Save as ${format}`, onclick: () => save(format) })));
}

const say = (words) => { byId("caption-state").textContent = words; };

async function begin(open) {
  session?.end();
  byId("caption-text").replaceChildren();
  say("Connecting…");
  const url = `${location.origin.replace(/^http/, "ws")}/v1/realtime?intent=transcription`;
  // A browser cannot set headers here; this is how OpenAI's own pages show their key.
  const protocols = ["realtime", ...(key() ? [`openai-insecure-api-key.${key()}`] : [])];
  const socket = new WebSocket(url, protocols);
  const context = new AudioContext({ sampleRate: RATE });
  const here = { socket, context, closing: false, opened: false, items: new Map() };
  here.end = () => finish(here);
  session = here;
  socket.onmessage = (event) => take(here, JSON.parse(event.data));
  socket.onclose = () => closed(here);
  socket.onopen = async () => {
    here.opened = true;
    socket.send(JSON.stringify({ type: "session.update", session: {
      type: "transcription",
      audio: { input: { format: { type: "audio/pcm", rate: RATE }, transcription: { model: "auto" } } },
      edgewise: byId("caption-private").checked ? { privacy: "private" } : {},
    } }));
    byId("quiet").hidden = false;
    try {
      here.stop = await open((samples) => sendSound(socket, samples), context, () => finish(here));
      say("Listening.");
    } catch (error) {
      say(error.name === "NotAllowedError" ? "The browser did not allow the microphone." : `No sound: ${error.message}`);
      here.failed = true;
      socket.close();
    }
  };
}

function closed(here) {
  here.stop?.();
  here.context.close();
  if (session === here) session = null;
  byId("quiet").hidden = true;
  if (!here.opened) say("Live captions are not installed on this server: edgewise doctor, there, says how to add them. Files still go to /v1/audio/transcriptions.");
  else if (here.fault) say(here.fault);
  else if (!here.failed) say("Not listening.");
}

function finish(here) {
  here.stop?.();
  here.stop = null;
  if (here.closing || here.socket.readyState !== WebSocket.OPEN) return;
  here.closing = true;
  say("Hearing the rest…");
  here.socket.send(JSON.stringify({ type: "input_audio_buffer.commit" }));
  setTimeout(() => here.socket.close(), 20000); // should the end not be told
}

async function fromMicrophone(send, context) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
  await context.audioWorklet.addModule("/dashboard/microphone.js");
  const source = context.createMediaStreamSource(stream);
  const worklet = new AudioWorkletNode(context, "microphone");
  worklet.port.onmessage = (event) => send(event.data);
  source.connect(worklet);
  return () => { source.disconnect(); stream.getTracks().forEach((track) => track.stop()); };
}

async function fromFile(file, send, context, done) {
  const sound = await context.decodeAudioData(await file.arrayBuffer());
  const samples = sound.getChannelData(0);
  const piece = RATE / 10;
  let at = 0;
  const timer = setInterval(() => {
    if (at < samples.length) { send(samples.slice(at, at + piece)); at += piece; } else { clearInterval(timer); done?.(); }
  }, 100);
  return () => clearInterval(timer);
}

function sendSound(socket, samples) {
  if (socket.readyState !== WebSocket.OPEN) return;
  const bytes = new Uint8Array(2 * samples.length);
  const view = new DataView(bytes.buffer);
  samples.forEach((value, index) => view.setInt16(2 * index, Math.round(32767 * Math.max(-1, Math.min(1, value))), true));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  socket.send(JSON.stringify({ type: "input_audio_buffer.append", audio: btoa(binary) }));
}

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const TAKEN = {
  "input_audio_buffer.speech_started": (line, event) => { line.start = event.audio_start_ms / 1000; },
  "input_audio_buffer.speech_stopped": (line, event) => { line.end = event.audio_end_ms / 1000; },
  [`${TRANSCRIPTION}delta`]: (line, event) => {
    const { start = line.start, end = line.end, probability = null } = event.edgewise || {};
    line.words.push({ text: event.delta, start, end, probability });
    line.text += event.delta;
    line.pending = "";
  },
  "edgewise.transcription.provisional": (line, event) => { line.pending = event.text; },
  [`${TRANSCRIPTION}completed`]: (line, event) => {
    line.pending = "";
    if (event.transcript !== line.text) { line.text = event.transcript; line.words = []; }
    Object.assign(line, { confidence: event.edgewise?.confidence ?? null, source: event.edgewise?.source ?? "local", done: true });
    if (event.edgewise) Object.assign(line, { start: event.edgewise.start, end: event.edgewise.end });
  },
  "edgewise.transcription.corrected": (line, event) => Object.assign(line, { text: event.transcript, words: [], source: "cloud", replaced: event.replaced }),
};

function take(here, event) {
  if (event.type === "error") { here.fault = event.error.message; say(event.error.message); return; }
  if (event.type === "edgewise.session.finished") { here.socket.close(); return; }
  const change = TAKEN[event.type];
  if (!change) return;
  let line = here.items.get(event.item_id);
  if (!line) {
    line = { start: 0, end: 0, text: "", pending: "", words: [], confidence: null, source: "local", replaced: null, done: false, box: make("div", { class: "line" }) };
    here.items.set(event.item_id, line);
    byId("caption-text").append(line.box);
  }
  change(line, event);
  if (!line.end) line.end = line.words.at(-1)?.end ?? line.start;
  show(line);
  lines = [...here.items.values()].filter((each) => each.text);
  for (const button of byId("exports").querySelectorAll("button")) button.disabled = !lines.length;
  byId("caption-text").scrollTop = byId("caption-text").scrollHeight;
}

// The less sure the device is of a word, the stronger it is marked.
const doubt = (probability) => (probability === null || probability >= 0.9 ? "" : probability >= 0.75 ? "doubt-1" : probability >= 0.5 ? "doubt-2" : "doubt-3");

function show(line) {
  line.box.hidden = !(line.text || line.pending);
  const said = make("p", { class: line.source === "cloud" ? "cloud" : "", title: line.replaced === null ? null : `The device heard: ${line.replaced}` });
  if (line.words.length)
    said.append(...line.words.map((word) => make("span", { class: doubt(word.probability), text: word.text, title: word.probability === null ? null : `probability ${word.probability.toFixed(2)}` })));
  else said.append(line.text);
  if (line.pending) said.append(make("span", { class: "provisional", text: `${line.text ? " " : ""}${line.pending}` }));
  const facts = make("small", {}, line.source === "cloud" ? make("span", { class: "pill cloud", text: "cloud" }) : "", line.confidence === null ? "" : ` ${line.confidence.toFixed(2)}`);
  if (line.confidence !== null) facts.title = "How sure the device is that few of these words are wrong";
  line.box.replaceChildren(make("time", { text: stamp(line.start) }), said, facts);
}

function save(format) {
  const url = URL.createObjectURL(new Blob([FORMATS[format](lines)], { type: "text/plain;charset=utf-8" }));
  const link = make("a", { href: url, download: `captions-${new Date().toISOString().slice(0, 16).replace(/[T:]/g, "-")}.${format}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
