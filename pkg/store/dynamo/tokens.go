package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// tokensKey is the partition of all agent tokens; the sort key is the token's id. One
// partition gives three thousand reads a second, and DynamoDB splits a hot one by sort key.
const tokensKey = "TOKENS"

// Tokens is a [token.Store] in the table of the approvals.
type Tokens struct {
	db api
	s  *Store // for its reads
}

var _ token.Store = (*Tokens)(nil)

// NewTokens returns the tokens of the named table. It makes no call.
func NewTokens(db api, table string) *Tokens { return &Tokens{db, New(db, table, nil)} }

// Token implements [token.Store].
func (k *Tokens) Token(ctx context.Context, id string) (token.Token, error) {
	t, err := read(ctx, k.s, tokenKey(id), decodeToken)
	if errors.Is(err, approval.ErrNotFound) {
		err = token.ErrNotFound
	}
	if err != nil {
		return token.Token{}, fmt.Errorf("get token %q: %w", id, err)
	}
	return t, nil
}

// PutToken implements [token.Store]. A write carries an id for the same reason as
// [Store.Put]'s.
func (k *Tokens) PutToken(ctx context.Context, t token.Token) (token.Token, error) {
	next := t.Next()
	next.LastUsed = time.Time{} // it has an attribute of its own
	data, err := rawjson.Marshal(next, next.Unknown)
	if err := cmp.Or(ctx.Err(), t.Check(), err); err != nil {
		return token.Token{}, fmt.Errorf("put token %q: %w", t.ID, err)
	}
	next.LastUsed = t.LastUsed
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
	_, err = k.db.UpdateItem(ctx, in, k.s.options)
	if err == nil {
		return next, nil
	}
	err = k.s.explain(err)
	if errors.Is(err, approval.ErrConflict) || garbled(err) {
		if held, unread := read(ctx, k.s, tokenKey(t.ID), writeIDOf); unread == nil && held == writeID {
			return next, nil
		}
	}
	if errors.Is(err, approval.ErrConflict) {
		err = token.ErrConflict
	}
	return token.Token{}, fmt.Errorf("put token %q: %w", t.ID, err)
}

// TouchToken implements [token.Store]. It writes one attribute, so that a role can be
// allowed that and no other write.
func (k *Tokens) TouchToken(ctx context.Context, id string, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("touch token %q: %w", id, err)
	}
	_, err := k.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &k.s.table, Key: tokenKey(id),
		UpdateExpression:          aws.String("SET last_used = :at"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: item{":at": text(at.UTC().Format(timeLayout))},
	}, k.s.options)
	if err == nil {
		return nil
	}
	if err = k.s.explain(err); errors.Is(err, approval.ErrConflict) {
		err = token.ErrNotFound
	}
	return fmt.Errorf("touch token %q: %w", id, err)
}

// Tokens implements [token.Store].
func (k *Tokens) Tokens(ctx context.Context) ([]token.Token, error) {
	all, err := query(ctx, k.s, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": text(tokensKey)},
		ConsistentRead:            aws.Bool(true),
	}, decodeToken)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return all, nil
}

func decodeToken(it item) (t token.Token, err error) {
	if t.Unknown, err = rawjson.Unmarshal([]byte(textOf(it["token"])), &t); err != nil {
		return token.Token{}, broken(it, err)
	}
	if used := textOf(it["last_used"]); used != "" {
		if t.LastUsed, err = time.Parse(timeLayout, used); err != nil {
			return token.Token{}, broken(it, err)
		}
	}
	return t, nil
}

func tokenKey(id string) item { return item{"PK": text(tokensKey), "SK": text(id)} }
