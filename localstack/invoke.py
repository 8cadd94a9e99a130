"""Invokes a built function with events on MiniStack, as `sam local invoke` does with Docker.

    invoke.py NAME FOLDER EVENT...

NAME is the function in template.yaml, and FOLDER/bootstrap is its program. Prints one line for each
answer. The log of the function goes to standard error.
"""

import base64
import io
import json
import os
import pathlib
import sys
import zipfile

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

name, folder, events = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
client = boto3.client("lambda", config=Config(read_timeout=300, retries={"max_attempts": 0}))

code = io.BytesIO()
with zipfile.ZipFile(code, "w", zipfile.ZIP_DEFLATED) as archive:
    program = zipfile.ZipInfo("bootstrap")
    program.external_attr = 0o755 << 16
    archive.writestr(program, (folder / "bootstrap").read_bytes())

# The emulator sets its own address.
environment = json.loads((pathlib.Path(__file__).parent / "env.json").read_text(encoding="utf-8"))["Parameters"]
del environment["AWS_ENDPOINT_URL"]
environment |= {"PORTCULLIS_AUTH": "none", "PORTCULLIS_BOOTSTRAP_SHA256": os.environ.get("PORTCULLIS_BOOTSTRAP_SHA256", ""), "PORTCULLIS_ALLOW_NETS": os.environ.get("ALLOW_NETS", "127.0.0.0/8")}

name = f"portcullis-invoke-{name}"
try:
    client.delete_function(FunctionName=name)
except ClientError as error:
    if error.response["Error"]["Code"] != "ResourceNotFoundException":
        raise
client.create_function(
    FunctionName=name,
    Runtime="provided.al2023",
    Handler="bootstrap",
    Role="arn:aws:iam::000000000000:role/portcullis-invoke",
    Timeout=300,
    Environment={"Variables": environment},
    Code={"ZipFile": code.getvalue()},
)
client.get_waiter("function_active_v2").wait(FunctionName=name)
failed = False
for event in events:
    answer = client.invoke(FunctionName=name, Payload=pathlib.Path(event).read_bytes(), LogType="Tail")
    sys.stderr.write(base64.b64decode(answer.get("LogResult", "")).decode("utf-8", "replace").rstrip("\n") + "\n")
    print(answer["Payload"].read().decode("utf-8"))
    if "FunctionError" in answer:
        failed = True
        print(f"{event}: the function failed", file=sys.stderr)
sys.exit(failed)
