"""The server: existing clients of OpenAI's, Anthropic's and Ollama's APIs become hybrid by a base URL."""
