package admin

type (
	// BulkAnswer says what became of many items.
	BulkAnswer = bulkOutputBody
	// TokenList is a page of agent tokens.
	TokenList = tokensOutputBody
	// MadeToken is a token with its text.
	MadeToken = makeTokenOutputBody
	// RevokedToken is a token that was ended, with what is granted to its name.
	RevokedToken = revokeTokenOutputBody
)
