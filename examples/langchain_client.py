"""LangChain: python langchain_client.py [URL]"""

import sys

from langchain_openai import ChatOpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8484"
model = ChatOpenAI(
    base_url=f"{url}/v1",
    api_key="any",
    model="auto",
    max_tokens=40,
    default_headers={"x-edgewise-policy": "prefer_local"},
    include_response_headers=True,
)

answer = model.invoke("What is the capital of France?")
print(answer.content)
print(f"  by {answer.response_metadata['headers']['x-edgewise-source']}")

for piece in model.stream("What is the capital of France?"):
    print(piece.content, end="", flush=True)
print()
