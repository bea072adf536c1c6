// Live captions over /v1/realtime, from the microphone or from a file played at its own speed.

import { byId, make } from "./page_parts.js";
import { key } from "./server.js";

const RATE = 24000; // as OpenAI's realtime API has it
let session = null;

export function startCaptions() {
  byId("listen").addEventListener("click", () => begin(fromMicrophone));
  byId("sound").addEventListener("change", () => {
    const [file] = byId("sound").files;
    byId("sound").value = "";
    if (file) begin((send, context, done) => fromFile(file, send, context, done));
  });
  byId("quiet").addEventListener("click", () => session?.end());
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
  if (!here.opened) say("Live captions are not installed on this server: pip install 'edgewise[server,speech]'. Files still go to /v1/audio/transcriptions.");
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

function take(here, event) {
  if (event.type === "error") { here.fault = event.error.message; say(event.error.message); return; }
  const start = "conversation.item.input_audio_transcription.";
  if (event.type === "edgewise.session.finished") { here.socket.close(); return; }
  if (!event.type.startsWith(start) && event.type !== "edgewise.transcription.provisional" && event.type !== "edgewise.transcription.corrected") return;
  const box = byId("caption-text");
  let span = here.items.get(event.item_id);
  if (!span) { span = make("span"); here.items.set(event.item_id, span); box.append(span, " "); }
  if (event.type === `${start}delta`) { span.className = ""; span.append(event.delta); }
  else if (event.type === "edgewise.transcription.provisional") { span.className = "provisional"; span.textContent = event.text; }
  else if (event.type === `${start}completed`) { span.className = event.edgewise?.source === "cloud" ? "cloud" : ""; span.textContent = event.transcript; }
  else if (event.type === "edgewise.transcription.corrected") {
    span.className = "cloud"; span.title = `The device heard: ${event.replaced}`; span.textContent = event.transcript;
  }
  box.scrollTop = box.scrollHeight;
}
