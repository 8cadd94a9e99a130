"""Refuses settings that a deploy would lose: python infra/parameters.py TEMPLATE STACK (NAME=VALUE… | --config FILE ENVIRONMENT)

SAM ignores a name that is no parameter of the template, for example a name with a typing error. CloudFormation forgets the
value of a parameter that the template no longer has. In both cases the deploy would succeed without the setting.
DROP, a variable of the environment, names the parameters whose value the stack may lose.
"""

import os
import re
import shlex
import sys
import tomllib

import boto3
import botocore.exceptions
from samcli.yamlhelper import yaml_parse

REMOVED = {  # the default, or None if the loss needs no action, and what to do; docs/aws-parameters.md has the same list
    "AccessLogDays": (None, "LogRetentionDays applies to the access log too"),
    "AdminGroup": ("", "add the group to Operators"),
    "AlarmMath": (None, "make deploy leaves these alarms out on an emulator"),
    "AuditLockDays": ("90", "write the days into AuditLock, such as AuditLock=GOVERNANCE:90"),
    "AuditScanLimit": (None, "the limit is 10 GB"),
    "RestTransfer": (None, "make deploy sets it on an emulator"),
    "SavedQueries": (None, "make deploy leaves the queries out on an emulator"),
    "StreamConcurrency": ("50", "set McpConcurrency to the same number"),
    "SyncConcurrency": (None, "a sync asks 64 servers at the same time; SyncMode=fanout with a low WorkConcurrency asks fewer"),
    "WebAcl": ("true", "set WebAclRate=0 instead of WebAcl=false"),
}


def deployed(stack, settings):
    """Returns the parameters of the stack, or nothing if the stack does not exist."""
    session = boto3.Session(region_name=settings.get("region"), profile_name=settings.get("profile"))
    try:
        stacks = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except botocore.exceptions.ClientError as e:
        if "does not exist" in str(e):
            return {}
        raise
    return {p["ParameterKey"]: p["ParameterValue"] for p in stacks[0].get("Parameters", [])}


def faults(known, given, kept, drop):
    """Returns a sentence for each setting that the deploy would lose."""
    for name in given:
        if name in REMOVED and name not in known:
            yield f"{name} is no longer a parameter: {REMOVED[name][1]}. Remove {name} from your settings."
        elif name not in known:
            yield f"{name} is no parameter of template.yaml. Correct the name; SAM would ignore it."
    for name, value in kept.items():
        default, advice = REMOVED.get(name, (None, ""))
        if name not in known and name not in given and name not in drop and default not in (None, value):
            yield f"The stack has {name}={value}, which is no longer a parameter: {advice}. Then deploy with DROP={name}."


if __name__ == "__main__":
    path, stack, *given = sys.argv[1:]
    settings = {}
    if given[:1] == ["--config"]:
        with open(given[1], "rb") as source:
            settings = tomllib.load(source)[given[2]]["deploy"]["parameters"]
        given = settings.get("parameter_overrides", [])
        given = shlex.split(given) if isinstance(given, str) else given
    names = [re.match(r"(?:ParameterKey=)?([^=,]*)", g)[1] for g in given]
    with open(path, encoding="utf-8") as source:
        known = yaml_parse(source.read())["Parameters"]
    found = list(faults(known, names, deployed(stack, settings), os.environ.get("DROP", "").replace(",", " ").split()))
    if found:
        sys.exit("\n".join([*found, "Nothing was deployed."]))
