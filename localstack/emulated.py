"""Makes RollOut=none and AlarmMath=false the defaults of a built template, and writes the maximum number of workers as a number.

MiniStack has no CodeDeploy and no alarms with metric math. It expands a SAM template with the defaults of its parameters, and ignores the
given values. It also turns a number in a parameter into text, and then polls no queue.
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
