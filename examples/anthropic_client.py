"""Anthropic's client: python anthropic_client.py [URL]"""

import sys

import anthropic

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8484"
client = anthropic.Anthropic(base_url=url, api_key="any")
question = [{"role": "user", "content": "What is the capital of France?"}]

answer = client.messages.create(model="auto", max_tokens=40, messages=question)
print(answer.content[0].text)
print(f"  by {answer.model}: {answer.edgewise['decision']['reason']}")

with client.messages.stream(model="auto", max_tokens=40, messages=question) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
