"""Prints template.yaml as the SAM translator expands it for CloudFormation, as JSON.

After the path come values of parameters (NAME=VALUE), which SAM uses before it evaluates conditions. With --versions
the program reads the values from standard input instead, a JSON object on each line, and prints for each line the names that SAM gives
the versions of the functions.
"""

import copy
import json
import sys

from include import inline
from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform


class NoManagedPolicies:
    """Returns no managed policies: the template names none, so SAM need not look them up."""

    def load(self):
        return {}


template = yaml_parse(inline(sys.argv[1]))
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = "s3://bucket/code.zip"
template["Globals"]["Function"].pop("CodeUri")
defaults = {name: parameter.get("Default", "") for name, parameter in template["Parameters"].items()}
if sys.argv[2:] == ["--versions"]:
    kept = "AWS::Serverless::Function"
    template["Resources"] = {name: resource for name, resource in template["Resources"].items() if resource["Type"] == kept}
    for line in sys.stdin:
        expanded = transform(copy.deepcopy(template), defaults | json.loads(line), NoManagedPolicies())
        print(json.dumps([name for name, resource in expanded["Resources"].items() if resource["Type"] == "AWS::Lambda::Version"]))
    sys.exit()
defaults.update(given.split("=", 1) for given in sys.argv[2:])
json.dump(transform(template, defaults, NoManagedPolicies()), sys.stdout)
