"""Prints the routes and the functions' environments that the code of `sam local` finds in a template."""

import json
import sys

from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider

template, env = sys.argv[1:]
stacks, _ = SamLocalStackProvider.get_stacks(template, parameter_overrides={"AuthMode": "none"})
for r in sorted(ApiProvider(stacks, cwd=".").api.routes, key=lambda r: r.path):
    print("route", r.path, r.function_name, r.payload_format_version)
provider = SamFunctionProvider(stacks, use_raw_codeuri=True)
with open(env, encoding="utf-8") as f:
    runner = LocalLambdaRunner(None, provider, cwd=".", real_path=".", aws_profile=None, aws_region=None, env_vars_values=json.load(f), debug_context=None)
for f in sorted(provider.get_all(), key=lambda f: f.name):
    told = runner._make_env_vars(f).resolve()
    print("function", f.name, *(told[n] for n in ("PORTCULLIS_AUTH", "PORTCULLIS_BUCKET", "PORTCULLIS_TABLE", "AWS_ENDPOINT_URL")))
