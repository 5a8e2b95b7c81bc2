"""Builds precompiled_charsmap, the double-array trie of SentencePiece's normalizer, from a dict of strings."""

import struct


def build(rules):
    """The bytes of a map that replaces each key, a string without NUL, by its value."""
    tree, blob = {}, bytearray()
    for key, value in rules.items():
        at = tree
        for b in key.encode():
            at = at.setdefault(b, {})
        at[0] = len(blob)
        blob += value.encode() + b"\0"
    units, used, free = [0] * 256, {0}, 1

    def place(node, at):
        nonlocal units, free
        labels = sorted(node)
        base = free & ~0xFF
        while any((base ^ c) in used for c in labels) or base == 0:
            base += 1
        top = base | 0xFF
        if top >= len(units):
            units += [0] * (top + 1 - len(units))
        offset = at ^ base
        assert offset < 1 << 21
        units[at] |= offset << 10 | (1 << 8 if 0 in node else 0)
        for c in labels:
            used.add(base ^ c)
        while free in used:
            free += 1
        for c in labels:
            if c == 0:
                units[base] = node[0] | 1 << 31
            else:
                units[base ^ c] |= c
                place(node[c], base ^ c)

    place(tree, 0)
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + bytes(blob)
