"""Copies a built template for `sam local`.

Each function may be told where the emulator is. What is declared of the API comes before the functions:
`sam local start-api` takes the first resource that it knows for the kind of all, and finds no route after a
serverless function. Its integrations name the function and not its alias, which it does not know, and the
REST API, whose conditions it does not look at, is left out.
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
template["Resources"] = type(template["Resources"])(resources)  # a dict would be written in the order of the alphabet
target.write_text(yaml_dump(template), encoding="utf-8")
