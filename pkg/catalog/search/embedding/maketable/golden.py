"""Vectors of words and sentences, read from a table's bytes. The Go code must get the same vectors."""

import base64
import json
import math
import pathlib
import struct

import numpy as np

from texts import pieces, words

WORDS = 200
UNKNOWN = ["ünïcode", "naïve"]  # a piece has the letters a–z and digits only


class Table:
    """The table of a file, as table.go describes it, by a dictionary instead of a search."""

    def __init__(self, data):
        version, dim, _, count, size = struct.unpack_from("<5I", data, 8)
        if data[:8] != b"PIECEVEC" or version != 1:
            raise ValueError("not a table of version 1")
        offsets = np.frombuffer(data, "<u4", count + 1, 28)
        at = 28 + 4 * (count + 1)
        self.row = {data[at + a : at + b].decode(): i for i, (a, b) in enumerate(zip(offsets, offsets[1:]))}
        at += size + -size % 4
        self.scale = np.frombuffer(data, "<f4", count, at).astype(np.float64)
        at += 4 * count
        packed = np.frombuffer(data, np.uint8, offset=at).reshape(count, dim // 2).astype(np.int16)
        self.codes = np.stack([packed & 15, packed >> 4], 2).reshape(count, dim) - 8
        self.dim = dim

    def vector(self, text_words):
        """Sum over the words, in the order of first use. A word that occurs n times has the weight 1 + ln n."""
        out = np.zeros(self.dim)
        for w in dict.fromkeys(text_words):
            weight = 1 + math.log(text_words.count(w))
            for p in pieces(w, self.row):
                out += weight * self.scale[self.row[p]] * self.codes[self.row[p]]
        return out


def quantise(x):
    """int8 codes, the largest absolute value as 127, in base64; and their length."""
    largest = np.abs(x).max()
    codes = np.rint(x / largest * 127).astype(np.int8) if largest > 0 else np.zeros(len(x), np.int8)
    return {"codes": base64.b64encode(codes.tobytes()).decode(), "norm": float(np.float32(math.sqrt(int((codes.astype(int) ** 2).sum()))))}


def render(data):
    """The golden file of a table: the first words of sentences.txt by the alphabet, some words without a vector, and all sentences."""
    table = Table(data)
    sentences = (pathlib.Path(__file__).parent / "sentences.txt").read_text().splitlines()
    vocabulary = sorted({w for s in sentences for w in words(s) if w.isascii()})[: WORDS - len(UNKNOWN)] + UNKNOWN
    rows = [{"word": w, "pieces": pieces(w, table.row), **quantise(table.vector([w]))} for w in vocabulary]
    texts = [{"text": s, **quantise(table.vector(words(s)))} for s in sentences]
    lines = lambda items: ",\n".join("  " + json.dumps(i, ensure_ascii=False) for i in items)
    return '{"words": [\n' + lines(rows) + '\n], "sentences": [\n' + lines(texts) + "\n]}\n"
