"""The server: existing clients of OpenAI's and Anthropic's APIs become hybrid by a base URL."""
