package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// tokensKey is the partition of all agent tokens; the sort key is the token's id. One partition
// allows three thousand reads a second, and DynamoDB splits a hot one by sort key.
const tokensKey = "TOKENS"

// Tokens is a [token.Store] in the table of the approvals.
type Tokens struct{ s *Store }

var _ token.Store = (*Tokens)(nil)

// NewTokens returns the tokens of the named table. It makes no call.
func NewTokens(db api, table string) *Tokens { return &Tokens{New(db, table, nil)} }

// Token implements [token.Store].
func (k *Tokens) Token(ctx context.Context, id string) (t token.Token, err error) {
	defer store.Wrap(&err, "get token %q", id)
	t, err = read(ctx, k.s, tokenKey(id), decodeToken)
	return t, as(err, approval.ErrNotFound, token.ErrNotFound)
}

// PutToken implements [token.Store].
func (k *Tokens) PutToken(ctx context.Context, t token.Token) (_ token.Token, err error) {
	defer store.Wrap(&err, "put token %q", t.ID)
	next, data, err := t.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return token.Token{}, err
	}
	writeID := rand.Text()
	in := &dynamodb.UpdateItemInput{
		TableName: &k.s.table, Key: tokenKey(t.ID),
		UpdateExpression:          aws.String("SET #token = :token, rev = :next, write_id = :write"),
		ConditionExpression:       aws.String("attribute_not_exists(PK)"),
		ExpressionAttributeNames:  map[string]string{"#token": "token"}, // a word that DynamoDB reserves
		ExpressionAttributeValues: item{":token": text(string(data)), ":next": number(next.Rev), ":write": text(writeID)},
	}
	if t.Rev > 0 {
		in.ConditionExpression = aws.String("rev = :rev")
		in.ExpressionAttributeValues[":rev"] = number(t.Rev)
	}
	_, err = k.s.db.UpdateItem(ctx, in, k.s.options)
	if err := k.s.written(ctx, in.Key, writeID, err); err != nil {
		return token.Token{}, as(err, approval.ErrConflict, token.ErrConflict)
	}
	return next, nil
}

// TouchToken implements [token.Store]. It writes one attribute, so that a role can be allowed this
// write alone.
func (k *Tokens) TouchToken(ctx context.Context, id string, at time.Time) (err error) {
	defer store.Wrap(&err, "touch token %q", id)
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = k.s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &k.s.table, Key: tokenKey(id),
		UpdateExpression:          aws.String("SET last_used = :at"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: item{":at": text(at.UTC().Format(timeLayout))},
	}, k.s.options)
	return as(k.s.explain(err), approval.ErrConflict, token.ErrNotFound)
}

// Tokens implements [token.Store].
func (k *Tokens) Tokens(ctx context.Context) (all []token.Token, err error) {
	defer store.Wrap(&err, "list tokens")
	return query(ctx, k.s, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": text(tokensKey)},
		ConsistentRead:            aws.Bool(true),
	}, decodeToken)
}

func decodeToken(it item) (token.Token, error) {
	t, err := token.Decode([]byte(textOf(it["token"])), textOf(it["last_used"]))
	if err != nil {
		err = broken(it, err)
	}
	return t, err
}

// as returns to if err is from, else err.
func as(err, from, to error) error {
	if errors.Is(err, from) {
		return to
	}
	return err
}

func tokenKey(id string) item { return item{"PK": text(tokensKey), "SK": text(id)} }
