"""Makes RollOut=none the default of a built template.

MiniStack has no CodeDeploy, and expands a template of SAM with the defaults of its parameters, whatever
values it is given.
"""

import pathlib
import sys

from samcli.yamlhelper import yaml_dump, yaml_parse

path = pathlib.Path(sys.argv[1])
template = yaml_parse(path.read_text(encoding="utf-8"))
template["Parameters"]["RollOut"]["Default"] = "none"
path.write_text(yaml_dump(template), encoding="utf-8")
