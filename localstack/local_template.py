"""Copies a built template for `sam local`.

Each function gets a variable for the emulator's address. The resources of the API come before the functions:
`sam local start-api` assumes that all APIs are of the kind of the first one, so it finds no route after a
serverless function. Integrations name the function, because it does not support an alias. The
REST API is left out, because it ignores the API's conditions.
"""

import pathlib
import sys

from samcli.yamlhelper import yaml_dump, yaml_parse

source, target = map(pathlib.Path, sys.argv[1:])
template = yaml_parse(source.read_text(encoding="utf-8"))
template["Globals"]["Function"]["Environment"]["Variables"]["AWS_ENDPOINT_URL"] = ""
template["Resources"].pop("RestApi")
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::ApiGatewayV2::Integration":
        properties = resource["Properties"]
        properties["IntegrationUri"] = {"Fn::GetAtt": [properties["IntegrationUri"]["Ref"].removesuffix(".Alias"), "Arn"]}
resources = sorted(template["Resources"].items(), key=lambda r: not r[1]["Type"].startswith("AWS::ApiGatewayV2::"))
template["Resources"] = type(template["Resources"])(resources)  # SAM would write a plain dict in alphabetical order
target.write_text(yaml_dump(template), encoding="utf-8")
