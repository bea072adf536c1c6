"""The server: a base URL makes clients of OpenAI, Anthropic and Ollama hybrid."""
