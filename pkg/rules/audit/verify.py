"""Checks audit files of a Portcullis gateway: python3 verify.py [FOLDER], by default ./audit."""
import hashlib, json, pathlib, re, sys

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "audit")
manifest, prev, faults = None, None, 0


def fault(text):
    global faults
    faults += 1
    print(text)


def hash_in(line):  # of the line before; None: it cannot be read
    try:
        said = json.loads(line)["prev"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return said if isinstance(said, str) and re.fullmatch("[0-9a-f]{64}", said) else None


if len(sys.argv) < 2 and (folder.parent / "manifest.json").exists():
    manifest = {d["day"]: d for d in json.loads((folder.parent / "manifest.json").read_bytes())["days"]}
files = sorted(f for f in folder.glob("*.jsonl") if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.jsonl", f.name))
for file in files:
    n, size, whole = 0, 0, hashlib.sha256()
    with file.open("rb") as lines:
        for n, line in enumerate(lines, 1):
            size += len(line)
            whole.update(line)
            line = line.removesuffix(b"\n")
            said = hash_in(line)
            if said is None:
                fault(f"{file.name}:{n} cannot be read")
            elif prev and said != prev:
                fault(f"{file.name}:{n} follows {said}, not {prev}")
            if prev is None:
                print("begins after", said)
            prev = hashlib.sha256(line).hexdigest()
    if manifest is not None:
        want = manifest.pop(file.name.removesuffix(".jsonl"), None)
        if want is None:
            fault(f"{file.name} is not in manifest.json")
        elif (want["lines"], want["bytes"], want["sha256"]) != (n, size, whole.hexdigest()):
            fault(f"{file.name} is not the file that manifest.json describes")
for day in manifest or {}:
    fault(f"{day!a} is in manifest.json, and its file is missing")
if not files:
    fault(f"{str(folder)!a} has no file of a day")
print("ends with", prev)
print(faults, "faults" if faults != 1 else "fault")
sys.exit(faults > 0)
