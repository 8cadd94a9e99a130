"""Starts a sync of a stack after a deploy, and waits for its end: sync.py STACK.

The new version of the sync function then writes the catalog in its own format. A sync that fails is no failure of the
deploy: agents keep the catalog that they have, and the schedule starts the next sync.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

LATER = "the deploy is complete, agents keep the catalog that they had, and the next sync starts on schedule"

try:
    stack = boto3.client("cloudformation").describe_stacks(StackName=sys.argv[1])["Stacks"][0]
    function = next(o["OutputValue"] for o in stack["Outputs"] if o["OutputKey"] == "SyncFunctionName")
    # A sync takes at most 900 s. A second request would start a second sync.
    client = boto3.client("lambda", config=Config(read_timeout=910, retries={"total_max_attempts": 1}))
    answer = client.invoke(FunctionName=function, Payload=b"{}")
    result = json.load(answer["Payload"])
except (BotoCoreError, ClientError, StopIteration, ValueError) as e:
    print(f"no sync was started, or its end is unknown: {e}; {LATER}", file=sys.stderr)
    sys.exit()
if "FunctionError" in answer:
    print(f"the sync failed: {result.get('errorMessage', 'no reason')}; {LATER}. A new stack needs a config first: make push-config")
elif result.get("planned"):
    print(f"workers load {result['planned']} servers now, and then the new version stores the catalog")
else:
    print(f"the new version synced: {len(result.get('servers', []))} servers, {result.get('tools', 0)} tools")
