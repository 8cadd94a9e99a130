"""Checks the templates with checkov: python infra/checkov.py PROGRAM SKIPS TEMPLATE…

SKIPS has a line for each accepted finding: its id, the resource as FILE:TYPE.NAME (* for any text), and the reason.
A finding without a line is an error. A line without a finding is an error too, because it would hide a later finding.
"""

import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from include import inline

# checkov skips a resource if its condition is false with the parameters' defaults. With these values it skips none.
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
        text = inline(template)
        for name, value in DEFAULTS.items():
            text = re.sub(rf"(?m)(^  {name}: {{.*?Default: )\w+", rf"\g<1>{value}", text)
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
    faults.append(f"checkov could not read everything: {unread} errors, {passed} checks that passed")
for c in found:
    resource = c["file_path"].lstrip("/") + ":" + c["resource"]
    known = [s for s in skips if s["id"] == c["check_id"] and fnmatch.fnmatchcase(resource, s["resource"])]
    for s in known:
        s["used"] = True
    if not known:
        faults.append(f"{c['check_id']} {resource}: {c['check_name']}")
faults += [f"{path}:{s['number']}: this finding no longer exists: remove {s['id']} {s['resource']}" for s in skips if not s["used"]]
if faults:
    sys.exit("\n".join(faults))
print(f"checkov: {passed} checks passed, {len(found)} accepted findings, each with a reason in {path}")
