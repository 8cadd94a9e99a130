package catalog

import (
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// ConfigFile and PolicyFile are what an operator writes. Their copies lie with the catalog
// because a sync, which keeps them, may write there alone.
var (
	ConfigFile = object.File[config.Config]{Key: config.Key, LastGood: "catalog/last_good_config.json", Parse: config.Parse}
	PolicyFile = object.File[policy.Policy]{Key: policy.Key, LastGood: "catalog/last_good_policy.cedar", Parse: policy.Parse, None: policy.Empty}
)
