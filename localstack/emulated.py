"""Makes RollOut=none and AlarmMath=false the defaults of a built template, and a number of how many workers there are at most.

MiniStack has no CodeDeploy and no alarms that compute, and expands a template of SAM with the defaults of its parameters, whatever
values it is given. Of a parameter that is a number it makes text, with which it polls no queue.
"""

import pathlib
import sys

from samcli.yamlhelper import yaml_dump, yaml_parse

path = pathlib.Path(sys.argv[1])
template = yaml_parse(path.read_text(encoding="utf-8"))
template["Parameters"]["RollOut"]["Default"] = "none"
template["Parameters"]["AlarmMath"]["Default"] = "false"
template["Resources"]["WorkMapping"]["Properties"]["ScalingConfig"]["MaximumConcurrency"] = template["Parameters"]["WorkConcurrency"]["Default"]
path.write_text(yaml_dump(template), encoding="utf-8")
