"""The container under ArrayRecord: chunks, their codecs, and what is done when they are damaged."""
