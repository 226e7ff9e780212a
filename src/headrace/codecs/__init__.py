"""Conversion between payloads and examples. Codecs are independent of files and framing."""
