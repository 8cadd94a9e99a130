"""Starts a sync of a stack after a deploy, waits for its end, and checks the data and the alarms: after_deploy.py STACK.

It needs boto3 and the credentials and the region of the deploy. The new version of the sync function then writes the
catalog in its own format. A sync that fails is no failure of the deploy: agents keep the catalog that they have, and
the schedule starts the next sync. A bucket or a table that cannot work is a failure, because nothing else reports a
bucket without versions or events. So is a topic of alarms that does not exist. A topic without a confirmed
subscription is no failure, because a person can open the link in the mail only after the deploy.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

LATER = "the deploy is complete, agents keep the catalog that they had, and the next sync starts on schedule"


def bucket_faults(name):
    s3 = boto3.client("s3")
    if s3.get_bucket_versioning(Bucket=name).get("Status") != "Enabled":
        yield (
            f"the bucket {name} keeps no old versions, so a config that was replaced or deleted is lost. Run: "
            f"aws s3api put-bucket-versioning --bucket {name} --versioning-configuration Status=Enabled"
        )
    if "EventBridgeConfiguration" not in s3.get_bucket_notification_configuration(Bucket=name):
        yield (
            f"the bucket {name} sends no events to EventBridge, so a new config waits for the next sync on schedule. "
            "Turn on Amazon EventBridge in the properties of the bucket"
        )


def table_faults(name):
    table = boto3.client("dynamodb").describe_table(TableName=name)["Table"]
    if "decisions" not in [index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])]:
        yield f"the table {name} has no index decisions, so the gateway cannot read decisions. Deploy with ExistingTable and the name of a table that a stack of the gateway made, or of a copy"


def topic_faults(arn):
    sns = boto3.client("sns", region_name=arn.split(":")[3])
    try:
        attributes = sns.get_topic_attributes(TopicArn=arn)["Attributes"]
    except sns.exceptions.NotFoundException:
        yield (
            f"the topic {arn} does not exist, so no alarm reaches anybody. Deploy with the ARN of an existing topic in AlarmTopicArn. "
            "If the stack made the topic, deploy first with AlarmEmail empty, and then with the address again"
        )
        return
    if attributes["SubscriptionsConfirmed"] == "0":
        print(
            f"no alarm reaches anybody yet, because the topic {arn} has no confirmed subscription. Open the link in the mail that AWS sent. "
            f"If there is no such mail, run: aws sns subscribe --topic-arn {arn} --protocol email --notification-endpoint ADDRESS",
            file=sys.stderr,
        )


def faults(name, check, parameter=""):
    """Returns the faults of a part of the stack. One that does not exist is a fault; a refused check is only reported."""
    try:
        return list(check(name))
    except ClientError as e:
        if e.response["Error"]["Code"] in ("NoSuchBucket", "ResourceNotFoundException"):
            return [f"{name} does not exist, so the gateway cannot work. Restore it (docs/operate.md), or deploy with {parameter} and the name of the one that exists"]
        print(f"{name} was not checked: {e}", file=sys.stderr)
    except BotoCoreError as e:
        print(f"{name} was not checked: {e}", file=sys.stderr)
    return []


def sync(function, bucket):
    # A sync takes at most 900 s. A second request would start a second sync.
    client = boto3.client("lambda", config=Config(read_timeout=910, retries={"total_max_attempts": 1}))
    answer = client.invoke(FunctionName=function, Payload=b"{}")
    result = json.load(answer["Payload"])
    if "FunctionError" in answer:
        if not boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix="config/mcp_config.json")["KeyCount"]:
            return f"the sync found no config in the bucket. Push a config, which starts the next sync: portcullis aws push --dir FOLDER --bucket {bucket}"
        return f"the sync failed: {result.get('errorMessage', 'no reason')}; {LATER}"
    if result.get("planned"):
        return f"workers load {result['planned']} servers now, and then the new version stores the catalog"
    return f"the new version synced: {len(result.get('servers', []))} servers, {result.get('tools', 0)} tools"


if len(sys.argv) != 2:
    sys.exit("name the stack: python3 infra/after_deploy.py STACK")
try:
    stack = boto3.client("cloudformation").describe_stacks(StackName=sys.argv[1])["Stacks"][0]
except (BotoCoreError, ClientError) as e:
    sys.exit(f"nothing was checked and no sync was started: {e}. Name a deployed stack, and use the credentials and the region of its deploy")
outputs = {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}
try:
    print(sync(outputs["SyncFunctionName"], outputs["BucketName"]))
except KeyError:
    print(f"the stack has no output SyncFunctionName, so no sync was started; {LATER}", file=sys.stderr)
except (BotoCoreError, ClientError, ValueError) as e:
    print(f"no sync was started, or its end is unknown: {e}; {LATER}", file=sys.stderr)
found = faults(outputs["BucketName"], bucket_faults, "ExistingBucket") + faults(outputs["TableName"], table_faults, "ExistingTable")
if "AlarmTopic" in outputs:
    found += faults(outputs["AlarmTopic"], topic_faults)
if found:
    sys.exit("\n".join(["the stack is deployed, but it has faults:"] + found))
