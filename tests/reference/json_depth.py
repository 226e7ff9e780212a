"""The nesting depth of JSON text, byte by byte."""


def too_deep(text: bytes, most: int) -> int:
    depth, in_string, at = 0, False, 0
    while at < len(text):
        byte = text[at : at + 1]
        if in_string:
            if byte == b"\\":
                at += 1
            elif byte == b'"':
                in_string = False
        elif byte == b'"':
            in_string = True
        elif byte in (b"[", b"{"):
            if depth == most:
                return at
            depth += 1
        elif byte in (b"]", b"}"):
            depth = max(0, depth - 1)
        at += 1
    return -1
