#!/usr/bin/env python3
"""Makes the bucket and the table of infra/data.yaml, and puts the example config into the bucket.

It runs inside LocalStack and MiniStack as their ready hook, and by hand against any emulator at
AWS_ENDPOINT_URL. What is there already stays as it is.
"""

import os
import pathlib

import boto3
from botocore.exceptions import ClientError

STACK, BUCKET, TABLE = "portcullis-data", "portcullis-data", "portcullis"
HERE = pathlib.Path(__file__).resolve().parent
MOUNTED = pathlib.Path("/etc/portcullis")
DATA = MOUNTED / "data.yaml" if MOUNTED.is_dir() else HERE.parent.parent / "infra" / "data.yaml"
CONFIG = MOUNTED / "config" if MOUNTED.is_dir() else HERE.parent / "config"

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
            TemplateBody=DATA.read_text(encoding="utf-8"),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "AlreadyExistsException":
            raise
    cloudformation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 60})


def put_config():
    s3 = boto3.client("s3", config=boto3.session.Config(s3={"addressing_style": "path"}), **SESSION)
    for path in sorted(CONFIG.iterdir()):
        try:
            s3.put_object(Bucket=BUCKET, Key=f"config/{path.name}", Body=path.read_bytes(), IfNoneMatch="*")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
                raise


make_stack()
put_config()
print(f"bucket {BUCKET} and table {TABLE} are ready at {SESSION['endpoint_url']}")
