"""Pictures: drawn text and photographs, what the device sees, and its confidence."""
