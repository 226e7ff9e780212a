"""Payloads to examples and back. Codecs know nothing of files or framing."""
