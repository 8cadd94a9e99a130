package catalog

import (
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// ConfigFile and PolicyFile are the operator's files. Their last good copies are in the catalog's
// folder, the only folder that a sync may write.
var (
	ConfigFile = object.File[config.Config]{Key: config.Key, LastGood: "catalog/last_good_config.json", Parse: config.Parse}
	PolicyFile = object.File[policy.Policy]{Key: policy.Key, LastGood: "catalog/last_good_policy.cedar", Parse: policy.Parse, None: policy.Empty}
)
