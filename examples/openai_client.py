"""OpenAI's client: python openai_client.py [URL], or with OPENAI_BASE_URL and OPENAI_API_KEY"""

import os
import sys

import openai

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8484"
if len(sys.argv) < 2 and os.environ.get("OPENAI_BASE_URL"):  # noqa: TID251
    client = openai.OpenAI()  # which reads both variables
else:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
question = [{"role": "user", "content": "What is the capital of France?"}]

answer = client.chat.completions.create(model="auto", messages=question, max_tokens=40)
print(answer.choices[0].message.content)
print(f"  by {answer.model}: {answer.edgewise['decision']['reason']}")

# Routing per request: this one never leaves the device.
answer = client.chat.completions.create(
    model="auto", messages=question, max_tokens=40, metadata={"privacy": "private"}
)
print(answer.choices[0].message.content)
print(f"  by {answer.model}, and nobody else")

for chunk in client.chat.completions.create(
    model="auto", messages=question, max_tokens=40, stream=True
):
    if chunk.choices and chunk.choices[0].delta.content:
        print(chunk.choices[0].delta.content, end="", flush=True)
print()

try:
    made = client.embeddings.create(model="auto", input=["a boat", "a ship"])
    print(f"  {len(made.data[0].embedding)} numbers in the space {made.edgewise['space']}")
except openai.APIStatusError as error:
    print(f"  no embeddings: {error.message}")
