"""Words, word pieces, and the texts that the table is fitted to."""

import gzip
import json
import pathlib
import re
import zipfile
import zlib

STOP_GO = pathlib.Path(__file__).parents[2] / "stopwords.go"


def stop_words():
    """Reads the ranker's own list from its source, so that the table fits the words that the ranker uses."""
    body = re.search(r"switch w \{(.*?)return true", STOP_GO.read_text(), re.S)[1]
    return frozenset(re.findall(r'"(\w+)"', body))


STOP = stop_words()


def words(text):
    """Lower-case words without stop words, with split identifiers, as search.SplitWords in Go. CJK has no vectors."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)
    return [w for w in re.findall(r"[^\W_]+", text.lower()) if w not in STOP]


def pieces(word, known):
    """The longest known beginning, then the longest known continuation, and so on. No pieces if a part is unknown."""
    out, i = [], 0
    while i < len(word):
        mark = "##" if i else ""
        j = next((j for j in range(len(word), i, -1) if mark + word[i:j] in known), None)
        if j is None:
            return []
        out.append(mark + word[i:j])
        i = j
    return out


def _newest(wheel, pattern):
    """Parses the files of a wheel that match the pattern. Of files with the same group 1, it uses only the last."""
    z = zipfile.ZipFile(wheel)
    last = {m[1]: path for path in sorted(z.namelist()) if (m := re.fullmatch(pattern, path))}
    for path in last.values():
        yield json.loads(gzip.decompress(z.read(path)) if path.endswith(".gz") else z.read(path))


def _pair(name, html):
    """An operation's name as words, and the first sentence of its documentation without markup."""
    name = re.sub(r"[_\-./:]+", " ", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)).strip()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()
    m = re.match(r"(.{15,}?[.!?])(\s|$)", text)
    return name, (m[1] if m else text)[:240]


def _methods(node):
    for m in node.get("methods", {}).values():
        yield _pair(m["id"].split(".", 1)[1], m.get("description", ""))
    for child in node.get("resources", {}).values():
        yield from _methods(child)


def operations(botocore, google):
    """(name, first sentence) of every API operation, of one version of each API."""
    for service in _newest(botocore, r"botocore/data/([^/]+)/[\d-]+/service-2\.json(\.gz)?"):
        yield from (_pair(op["name"], op.get("documentation", "")) for op in service["operations"].values())
    for api in _newest(google, r"googleapiclient/discovery_cache/documents/([^/]+?)\.v[^/]*\.json"):
        yield from _methods(api)


def training_texts(botocore, google):
    """Half of the sentences alone, as in a query, and half after the operation's name, as in a tool. A checksum selects the half."""
    ops = [(name, text) for name, text in operations(botocore, google) if len(text) > 20]
    return list(dict.fromkeys(text if zlib.crc32(text.encode()) & 1 else f"{name}: {text}" for name, text in ops))
