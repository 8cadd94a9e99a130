"""Prints a template with the files of infra/rights in it, as AWS::Include inserts them: python infra/include.py TEMPLATE

Programs that do not know AWS::Include, such as linters, read this output.
"""

import json
import pathlib
import re
import sys

import yaml

INCLUDE = re.compile(r"\{Fn::Transform: \{Name: AWS::Include, Parameters: \{Location: ([\w./-]+)\}\}\}")


def inline(path):
    """Returns the text of the template. A path in the template is relative to the template's folder."""
    path = pathlib.Path(path)
    # AWS reads a file of this kind without the short form of functions, and so does this loader.
    return INCLUDE.sub(lambda m: json.dumps(yaml.safe_load((path.parent / m[1]).read_text(encoding="utf-8"))), path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.stdout.write(inline(sys.argv[1]))
