package admin

// The answers of the API that clients read under other names than the description has.
type (
	BulkAnswer   = bulkOutputBody
	TokenList    = tokensOutputBody
	MadeToken    = makeTokenOutputBody
	RevokedToken = revokeTokenOutputBody
)
