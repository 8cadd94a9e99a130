"""Leaves out of a built template what MiniStack lacks, and writes the maximum number of workers as a number.

MiniStack has no CodeDeploy, no alarms with metric math, no saved queries of Logs Insights and Athena, and no REST API that streams. It
expands a SAM template with the defaults of its parameters, and ignores the given values. It also turns a number in a parameter into
text, and then polls no queue.
"""

import pathlib
import sys

from samcli.yamlhelper import yaml_dump, yaml_parse

path = pathlib.Path(sys.argv[1])
template = yaml_parse(path.read_text(encoding="utf-8"))
resources = template["Resources"]
template["Parameters"]["RollOut"]["Default"] = "none"
resources["Observability"]["Properties"]["Parameters"] |= {"AlarmMath": "false", "SavedQueries": "false"}
resources["AuditLines"]["Properties"]["Parameters"]["SavedQueries"] = "false"
resources["RestApi"]["Properties"]["Parameters"]["Transfer"] = "BUFFERED"
template["Globals"]["Function"]["Environment"]["Variables"]["PORTCULLIS_STREAMING"] = {"Ref": "Streaming"}
resources["WorkMapping"]["Properties"]["ScalingConfig"]["MaximumConcurrency"] = template["Parameters"]["WorkConcurrency"]["Default"]
path.write_text(yaml_dump(template), encoding="utf-8")
