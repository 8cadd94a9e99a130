"""Holds the templates against checkov: python infra/checkov.py PROGRAM SKIPS TEMPLATE…

SKIPS has a line for each finding that stays: its id, the resource as FILE:TYPE.NAME (* for any text), and why.
A finding without a line fails, and a line without a finding too: it would hide the next one.
"""

import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# checkov leaves out a resource whose condition the defaults of the parameters do not meet: with these none is left out.
DEFAULTS = {"SyncMode": "fanout"}

program, path, *templates = sys.argv[1:]
skips = []
with open(path, encoding="utf-8") as lines:
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=2)
        if not words or line.startswith("#"):
            continue
        if len(words) < 3:
            sys.exit(f"{path}:{number}: want an id, a resource and why")
        skips.append({"id": words[0], "resource": words[1], "number": number, "used": False})

with tempfile.TemporaryDirectory() as folder:
    for template in templates:
        text = pathlib.Path(template).read_text(encoding="utf-8")
        for name, value in DEFAULTS.items():
            text = re.sub(rf"(?m)(^  {name}:\n(?:    .*\n)*?    Default: ).*", rf"\g<1>{value}", text)
        copy = pathlib.Path(folder, template)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    program = os.path.abspath(program) if os.path.exists(program) else program
    command = [program, "--framework", "cloudformation", "--skip-download", "--quiet", "--compact", "-o", "json", "-f", *templates]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LOG_LEVEL": "ERROR"}, check=False, cwd=folder)
try:
    answer = json.loads(run.stdout)
    reports = answer if isinstance(answer, list) else [answer]
    passed = sum(r["summary"]["passed"] for r in reports)
    unread = sum(r["summary"]["parsing_errors"] for r in reports)
    found = [c for r in reports for c in r["results"]["failed_checks"]]
except (ValueError, KeyError):
    sys.exit(f"checkov gave no report:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")

faults = []
if unread or not passed:
    faults.append(f"checkov read not everything: {unread} errors, {passed} checks that passed")
for c in found:
    resource = c["file_path"].lstrip("/") + ":" + c["resource"]
    known = [s for s in skips if s["id"] == c["check_id"] and fnmatch.fnmatchcase(resource, s["resource"])]
    for s in known:
        s["used"] = True
    if not known:
        faults.append(f"{c['check_id']} {resource}: {c['check_name']}")
faults += [f"{path}:{s['number']}: nothing is found any more: remove {s['id']} {s['resource']}" for s in skips if not s["used"]]
if faults:
    sys.exit("\n".join(faults))
print(f"checkov: {passed} checks passed, {len(found)} findings stay, each with a reason in {path}")
