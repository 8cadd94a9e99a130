#!/usr/bin/env python3
"""Distil a sentence encoder into a table with one short vector per word piece: semantic ranking without a model at run time.

    maketable.py --inputs DIR [--cache DIR] [--out DIR] [--dim 256] [--top 20000]

DIR has the wheels of inputs.txt; the program checks their SHA-256. It writes three files to the embedding package:
table.bin, sum.go (its digest) and testdata/golden.json (vectors of words and sentences, for a comparison in a Go test).

A text's vector is the sum of its pieces' rows, and no other part of the encoder remains. So the program fits the rows
until these sums are close to the encoder's vectors of whole sentences: (1) each piece runs alone through the encoder;
(2) ridge regression moves the rows towards the sentence vectors of the training texts; (3) PCA, partial whitening and
4-bit codes make the rows small. table.go describes the file.

The same inputs give the same bytes on the same kind of CPU with the same libraries. README.md describes the differences
elsewhere.
"""

import argparse
import collections
import hashlib
import pathlib
import re
import struct
import sys

import numpy as np
import scipy.sparse as sp

import golden
from encoder import Encoder
from texts import pieces, training_texts, words

HERE = pathlib.Path(__file__).parent
FIRST_CHAR, FIRST_WORD = 999, 1996  # ids of the BERT vocabulary: single characters from 999, words from 1996 on


def checked_inputs(folder):
    """The wheels of inputs.txt in folder, in its order, each with the SHA-256 written there."""
    have = {hashlib.sha256(p.read_bytes()).hexdigest(): p for p in pathlib.Path(folder).glob("*.whl")}
    out = []
    for name, want in re.findall(r"^(\S+) \\\n\s+--hash=sha256:(\w+)", (HERE / "inputs.txt").read_text(), re.M):
        if want not in have:
            sys.exit(f"no wheel in {folder} is {name} with sha256 {want}")
        out.append(have[want])
    return out


def bags_of(texts, column, weight):
    """Sparse matrix, one row per text: the weighted shares of its pieces. The sum is 1, or 0 for a text without a known piece."""
    counts = [collections.Counter(column[p] for w in words(t) for p in pieces(w, column)) for t in texts]
    total = [sum(n * weight[c] for c, n in count.items()) for count in counts]
    row, col, val = zip(*((r, c, n * weight[c] / total[r]) for r, count in enumerate(counts) for c, n in sorted(count.items())))
    return sp.csr_matrix((val, (row, col)), shape=(len(texts), len(weight)))


def fit(bags, base, target, ridge=0.3, tolerance=1e-9):
    """Rows whose weighted means over each text's pieces come close to the text's sentence vector; and R².

    rows = scaled base + D, where D solves the ridge regression of what the base leaves unexplained, by conjugate
    gradients with the diagonal as preconditioner (the normal matrix is pieces x pieces and sparse; all 384 columns
    at once). The ridge keeps a piece that is rare in the texts where the encoder alone put it. The solution is exact,
    because an approximation would depend on the order in which a BLAS adds.
    """
    b = bags @ base
    t0, b0 = target.mean(0), b.mean(0)
    slope = ((target - t0) * (b - b0)).sum() / ((b - b0) ** 2).sum()
    rest = target - t0 - slope * (b - b0)
    diagonal = np.asarray(bags.multiply(bags).sum(0)).reshape(-1, 1) + ridge
    D, r = np.zeros_like(base), bags.T @ rest
    z = r / diagonal
    p, rz = z, (r * z).sum(0)
    goal = rz * tolerance**2
    while (rz > goal).any():
        q = bags.T @ (bags @ p) + ridge * p
        step = rz / (p * q).sum(0)
        D += step * p
        r -= step * q
        z = r / diagonal
        new = (r * z).sum(0)
        p, rz = z + new / rz * p, new
    explained = 1 - ((rest - bags @ D) ** 2).sum() / ((target - t0) ** 2).sum()
    return slope * (base - b0) + D, explained


def compress(rows, rank, dim):
    """PCA in which a piece counts 1/sqrt(rank), then partial whitening: the first components say little but "technical English"."""
    w = rank**-0.5
    w /= w.sum()
    rows = rows - w @ rows
    values, vectors = np.linalg.eigh((rows * w[:, None]).T @ rows)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(dim)])  # an eigenvector's sign is free: fix it
    rows = rows @ vectors * (values / values[0]) ** (-0.25 if dim >= 256 else -0.375)
    return rows / np.median(np.linalg.norm(rows, axis=1))


def encode_table(tokens, rows, weight):
    """The bytes of the file; see table.go."""
    order = sorted(range(len(tokens)), key=lambda i: tokens[i].encode())
    names, rows, weight = [tokens[i].encode() for i in order], rows[order], weight[order]
    step = np.abs(rows).max(1, keepdims=True) / 7
    codes = np.clip(np.round(rows / step), -7, 7).astype(np.int8)
    codes = (codes + 8).astype(np.uint8)
    codes = codes[:, 0::2] | codes[:, 1::2] << 4
    blob = b"".join(names)
    head = b"PIECEVEC" + struct.pack("<5I", 1, rows.shape[1], 4, len(names), len(blob))
    offsets = np.cumsum([0] + [len(n) for n in names]).astype("<u4").tobytes()
    return head + offsets + blob + b"\0" * (-len(blob) % 4) + (step[:, 0] * weight).astype("<f4").tobytes() + codes.tobytes()


def make(o):
    model, botocore, google = checked_inputs(o.inputs)
    enc = Encoder(model, o.cache)
    ids = [i for i, t in enumerate(enc.vocabulary) if i >= FIRST_CHAR and re.fullmatch(r"(##)?[a-z0-9]+", t)]
    tokens = [enc.vocabulary[i] for i in ids]
    rank = np.maximum(np.array(ids) - FIRST_WORD, 1).astype(np.float64)  # BERT's ids fall with frequency
    weight = 1e-3 / (1e-3 + 1 / (10.8 * rank))  # smooth inverse frequency a/(a+p), with p by Zipf's law
    texts = training_texts(botocore, google)
    base = enc.encode_pieces(ids).astype(np.float64)
    base /= np.linalg.norm(base, axis=1, keepdims=True)
    target = enc.encode_texts(texts).astype(np.float64)
    bags = bags_of(texts, {t: i for i, t in enumerate(tokens)}, weight)
    known = np.flatnonzero(bags.sum(1))
    rows, explained = fit(bags[known], base, target[known])
    keep = np.arange(min(o.top, len(tokens)))
    print(f"{len(texts)} texts, R2 {explained:.3f}, {len(keep)} of {len(tokens)} pieces")
    return encode_table([tokens[i] for i in keep], compress(rows, rank, o.dim)[keep], weight[keep])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--inputs", required=True, help="folder with the wheels of inputs.txt")
    a.add_argument("--cache", help="folder that keeps the encoder's output for the next run")
    a.add_argument("--out", default=HERE.parent, type=pathlib.Path, help="folder of the embedding package")
    a.add_argument("--dim", type=int, default=256)
    a.add_argument("--top", type=int, default=20000, help="keep the N most frequent pieces (all are fitted)")
    o = a.parse_args()
    data = make(o)
    digest = hashlib.sha256(data).hexdigest()
    (o.out / "testdata").mkdir(parents=True, exist_ok=True)
    (o.out / "table.bin").write_bytes(data)
    (o.out / "testdata" / "golden.json").write_text(golden.render(data))
    (o.out / "sum.go").write_text(
        "// Code generated by maketable.py. DO NOT EDIT.\n\npackage embedding\n\n"
        "// SHA256 is the digest of the built-in table. Vectors made with tables of\n"
        "// different digests must not be compared.\n"
        f'const SHA256 = "{digest}"\n'
    )
    print(f"{len(data)} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
