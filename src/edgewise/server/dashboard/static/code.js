// The same request as a program would make it.

const HELLO = "What is the capital of Australia?";

// A key is written as a variable of the shell: it must not be in what people paste elsewhere.
const KEY = "GATEWAY_KEY";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curl(body, keyed) {
  return [
    `curl ${location.origin}/v1/chat/completions`,
    "-H 'content-type: application/json'",
    ...(keyed ? [`-H "authorization: Bearer $${KEY}"`] : []),
    `-d ${quoted(written(body, JSON_WORDS, "  "))}`,
  ].join(" \\\n  ");
}

// JSON's words for true, false and null are not Python's; its strings are.
const JSON_WORDS = { null: "null", true: "true", false: "false", tail: "" };
const PYTHON_WORDS = { null: "None", true: "True", false: "False", tail: "," };

function written(value, terms, indent) {
  if (value === null || typeof value === "boolean") return terms[value];
  if (typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}  ${terms.tail ? "  " : ""}`;
  const parts = Array.isArray(value)
    ? value.map((each) => written(each, terms, deeper))
    : Object.entries(value).filter(([, each]) => each !== undefined).map(([name, each]) => `${JSON.stringify(name)}: ${written(each, terms, deeper)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const line = `${open}${parts.join(", ")}${close}`;
  return line.length < 64 - indent.length ? line : `${open}\n${deeper}${parts.join(`,\n${deeper}`)}${terms.tail}\n${indent}${close}`;
}

const python = (value) => written(value, PYTHON_WORDS, "    ");

const keyOf = (keyed) => (keyed ? `os.environ["${KEY}"]` : '"any"');
const imports = (keyed, line) => `${keyed ? "import os\n\n" : ""}${line}\n\n`;

export function openai(body, keyed) {
  const given = Object.entries(body).filter(([, value]) => value !== undefined).map(([name, value]) => `    ${name}=${python(value)},\n`).join("");
  const show = body.stream
    ? "for chunk in reply:\n    if chunk.choices:\n        print(chunk.choices[0].delta.content or \"\", end=\"\", flush=True)"
    : "print(reply.choices[0].message.content)\nprint(reply.edgewise[\"source\"], reply.edgewise[\"confidence\"])";
  return `${imports(keyed, "from openai import OpenAI")}client = OpenAI(base_url="${location.origin}/v1", api_key=${keyOf(keyed)})\nreply = client.chat.completions.create(\n${given})\n${show}`;
}

const anthropic = (keyed) => `${imports(keyed, "from anthropic import Anthropic")}client = Anthropic(base_url="${location.origin}", api_key=${keyOf(keyed)})
message = client.messages.create(
    model="auto",
    max_tokens=256,
    messages=[{"role": "user", "content": "${HELLO}"}],
)
print(message.content[0].text)`;

const ollama = (keyed) => `${imports(keyed, "from ollama import Client")}client = Client(host="${location.origin}"${keyed ? `, headers={"authorization": f"Bearer {${keyOf(keyed).replaceAll('"', "'")}}"}` : ""})
reply = client.chat(
    model="auto",
    messages=[{"role": "user", "content": "${HELLO}"}],
)
print(reply.message.content)`;

const FIRST = { model: "auto", messages: [{ role: "user", content: HELLO }] };

export const CLIENTS = {
  curl: (keyed) => curl(FIRST, keyed),
  openai: (keyed) => openai(FIRST, keyed),
  anthropic,
  ollama,
};
