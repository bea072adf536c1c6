// What was captioned, as a file: plain text, SubRip or WebVTT.

const LINE = 42; // characters that fit on a line; two lines are shown
const LONGEST_S = 7;

export const FORMATS = {
  txt: (lines) => lines.map((line) => `[${stamp(line.start)}] ${line.text}\n`).join(""),
  srt: (lines) => cues(lines).map((cue, index) => `${index + 1}\n${clock(cue.start, ",")} --> ${clock(cue.end, ",")}\n${cue.text}\n`).join("\n"),
  vtt: (lines) => ["WEBVTT\n", ...cues(lines).map((cue) => `${clock(cue.start, ".")} --> ${clock(cue.end, ".")}\n${escaped(cue.text)}\n`)].join("\n"),
};

// Minutes and seconds, as people read them.
export function stamp(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  return whole < 3600 ? `${Math.floor(whole / 60)}:${two(whole % 60)}` : `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

// Each line; in short pieces if the times of its words are known.
function cues(lines) {
  const found = [];
  for (const line of lines) {
    if (!line.words.length) { found.push({ start: line.start, end: line.end, text: folded(line.text) }); continue; }
    let held = [];
    const flush = () => { if (held.length) found.push({ start: held[0].start, end: held.at(-1).end, text: folded(joined(held)) }); held = []; };
    for (const word of line.words) {
      if (held.length && (joined([...held, word]).length > 2 * LINE || word.end - held[0].start > LONGEST_S)) flush();
      held.push(word);
    }
    flush();
  }
  return found;
}

const joined = (words) => words.map((word) => word.text).join("").trim();

function folded(text) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && longer.length > LINE) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines.join("\n");
}

function clock(seconds, point) {
  const whole = Math.round(1000 * Math.max(0, seconds));
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  return `${two(whole / 3600000)}:${two((whole / 60000) % 60)}:${two((whole / 1000) % 60)}${point}${String(whole % 1000).padStart(3, "0")}`;
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
