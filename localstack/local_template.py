"""Copies a built template for `sam local`: each function may be told where the emulator is."""

import pathlib
import sys

from samcli.yamlhelper import yaml_dump, yaml_parse

source, target = map(pathlib.Path, sys.argv[1:])
template = yaml_parse(source.read_text(encoding="utf-8"))
template["Globals"]["Function"]["Environment"]["Variables"]["AWS_ENDPOINT_URL"] = ""
target.write_text(yaml_dump(template), encoding="utf-8")
