// Typed questions about a text: a chance for each option, who answered each question, and whether it
// was right.

import { confidenceBar } from "./charts.js";
import { PLACES, badge, byId, duration, make, money, verdict, words } from "./page_parts.js";
import { feedback, post, reason } from "./server.js";

const EXAMPLE = "I was charged twice for my order and nobody answers. Please fix it today!";
const QUESTIONS = ["Does the customer want money back?", "Who should take it? billing, tech, sales"];

export function startDecide() {
  byId("decide-state").placeholder = EXAMPLE;
  byId("decide-questions").value = QUESTIONS.join("\n");
  byId("decide-form").addEventListener("submit", (event) => { event.preventDefault(); decide(); });
}

// One line is one question. What stands behind the question mark are its options; without them it is
// answered with yes or no.
export function questionIn(line) {
  const end = line.indexOf("?") + 1 || line.length;
  const instructions = line.slice(0, end).trim();
  const options = line.slice(end).split(",").map((each) => each.trim()).filter(Boolean);
  return options.length
    ? { type: "choice", instructions, choices: options.map((value) => ({ value })) }
    : { type: "predicate", instructions };
}

async function decide() {
  const questions = byId("decide-questions").value.split("\n").filter((line) => line.trim()).map(questionIn);
  const button = byId("decide-send");
  const shown = byId("decide-shown");
  button.disabled = true;
  shown.replaceChildren(make("p", { class: "empty", text: "Deciding…" }));
  try {
    const response = await post("/v1/decisions", {
      model: "auto", input: byId("decide-state").value.trim() || EXAMPLE, questions,
      metadata: byId("decide-private").checked ? { privacy: "private" } : {},
    });
    if (!response.ok) throw new Error(await reason(response));
    show(questions, await response.json());
  } catch (error) {
    shown.replaceChildren(make("p", { class: "error", role: "alert", text: error.message }));
  } finally {
    button.disabled = false;
  }
}

function show(questions, { answers, edgewise: report }) {
  const rows = questions.map((question, at) => line(question, answers[at], report.answers[at]));
  const kept = report.answers.filter((each) => each.source === "local").length;
  const doubt = report.answers.filter((each) => each.doubted).length;
  byId("decide-shown").replaceChildren(
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers" }, make("table", {},
      make("thead", {}, make("tr", {}, ...["Question", "Answer", "Answered by", "Confidence"].map((text) => make("th", { scope: "col", text })))),
      make("tbody", {}, ...rows))),
    make("p", { class: "note decide-sum" }, `${kept} of ${questions.length} kept on the device${doubt ? `, ${doubt} in doubt` : ""}; ${duration(report.total_ms)}, ${report.cost_microdollars ? money(report.cost_microdollars) : "$0"}. All right? `,
      report.source === "none" ? null : verdict(report.id, feedback)));
}

function line(question, answer, told) {
  return make("tr", {},
    make("td", { text: question.instructions }),
    make("td", {}, said(answer), chances(answer)),
    make("td", {}, make("span", { class: `pill ${told.source}`, text: PLACES[told.source] }), told.doubted ? badge("in doubt", told.reason, "warn") : null),
    make("td", { class: "sure", title: told.reason || words(told.code) }, told.confidence === null ? "not measured" : confidenceBar(told.confidence, told.source, told.confidence_verified)));
}

function said(answer) {
  if (answer.type === "refusal") return make("strong", { text: "no answer" });
  if (answer.type === "predicate") return make("strong", { text: answer.probability >= 0.5 ? "yes" : "no" });
  return make("strong", { text: String(answer.choice) });
}

// Every option with its chance, the likeliest first.
function chances(answer) {
  const rows = answer.type === "predicate"
    ? [["yes", answer.probability], ["no", 1 - answer.probability]]
    : (answer.probabilities || []).map((each) => [String(each.value), each.probability]);
  return make("small", { text: rows.sort((a, b) => b[1] - a[1]).map(([name, chance]) => `${name} ${chance.toFixed(2)}`).join(" · ") });
}
