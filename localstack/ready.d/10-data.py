#!/usr/bin/env python3
"""Creates the bucket and the table of infra/data.yaml, and puts the example config and policy into the bucket.

It runs inside LocalStack and MiniStack as their ready hook, and by hand against any emulator at
AWS_ENDPOINT_URL. It does not change existing data.
"""

import os
import pathlib

import boto3
from botocore.exceptions import ClientError

STACK, BUCKET, TABLE = "portcullis-data", "portcullis-data", "portcullis"
# LocalStack executes the text of this file in its own interpreter, where __file__ is not defined.
ROOT = pathlib.Path(os.environ.get("PORTCULLIS_ROOT") or pathlib.Path(__file__).resolve().parents[2])
EXAMPLE = ROOT / "localstack" / "example"

SESSION = {
    "endpoint_url": os.environ.get("AWS_ENDPOINT_URL", "http://localhost:4566"),
    "region_name": os.environ.get("AWS_REGION", "us-east-1"),
    "aws_access_key_id": os.environ.get("AWS_ACCESS_KEY_ID", "test"),
    "aws_secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
}


def make_stack():
    cloudformation = boto3.client("cloudformation", **SESSION)
    parameters = {"BucketName": BUCKET, "TableName": TABLE, "DeletionProtection": "false"}
    try:
        cloudformation.create_stack(
            StackName=STACK,
            TemplateBody=(ROOT / "infra" / "data.yaml").read_text(encoding="utf-8"),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "AlreadyExistsException":
            raise
    cloudformation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 60})


def put_config():
    s3 = boto3.client("s3", config=boto3.session.Config(s3={"addressing_style": "path"}), **SESSION)
    # Put the policy first, so that a tool of the config never exists without the rule about it.
    for key in ("config/policy.cedar", "config/mcp_config.json"):
        try:
            s3.put_object(Bucket=BUCKET, Key=key, Body=(EXAMPLE / key).read_bytes(), IfNoneMatch="*")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
                raise


make_stack()
put_config()
print(f"bucket {BUCKET} and table {TABLE} are ready at {SESSION['endpoint_url']}")
