"""pydantic-ai: python pydantic_ai_client.py [URL]"""

import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8484"
provider = OpenAIProvider(base_url=f"{url}/v1", api_key="any")
agent = Agent(OpenAIChatModel("auto", provider=provider))

answer = agent.run_sync("What is the capital of France?", model_settings={"max_tokens": 40})
print(answer.output)
print(f"  by {answer.response.model_name}")
