"""The description of the server's endpoints in OpenAPI 3.1, which it serves itself."""
