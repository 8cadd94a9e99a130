package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// deleter is what the stores call that remove things, besides a Store's calls.
type deleter interface {
	api
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// Sessions is a [session.Store] in the table of the approvals. The table removes expired items up
// to days later, so every call compares the time as well.
//
// A session's id is kept in clear: it is of little use an hour later, the table is encrypted, and
// only one role reads these items. Encrypting it with a key made of the server's credential would
// hide the id, and let guesses at that credential be tried on each item.
type Sessions struct {
	db deleter
	s  *Store
}

var _ session.Store = (*Sessions)(nil)

// NewSessions returns the sessions of the named table. It makes no call. now nil means time.Now.
func NewSessions(db deleter, table string, now func() time.Time) *Sessions {
	return &Sessions{db, New(db, table, &store.Options{Now: now})}
}

// Get implements [session.Store].
func (x *Sessions) Get(ctx context.Context, k session.Key) (_ session.Session, err error) {
	defer store.Wrap(&err, "get session of %q", k.Server)
	s, err := read(ctx, x.s, sessionKey(k), decodeSession)
	if err != nil {
		return session.Session{}, as(err, approval.ErrNotFound, session.ErrNotFound)
	}
	if !s.Expires.After(x.s.o.Now()) {
		return session.Session{}, session.ErrNotFound
	}
	return s, nil
}

// Put implements [session.Store]. A write whose answer was lost is sent again by the client, and
// may replace its own session.
func (x *Sessions) Put(ctx context.Context, k session.Key, s session.Session, old secret.Text) (kept session.Session, err error) {
	defer store.Wrap(&err, "put session of %q", k.Server)
	if err := ctx.Err(); err != nil {
		return session.Session{}, err
	}
	it := sessionKey(k)
	it["session_id"] = text(s.ID.Reveal())
	it["protocol_version"] = text(s.Version)
	it["expires_at"] = number(s.Expires.Unix())
	_, err = x.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &x.s.table, Item: it,
		ConditionExpression: aws.String("attribute_not_exists(PK) OR session_id IN (:own, :old) OR expires_at <= :now"),
		ExpressionAttributeValues: item{
			":own": text(s.ID.Reveal()), ":old": text(old.Reveal()), ":now": number(x.s.o.Now().Unix()),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, x.s.options)
	if err == nil {
		return s, nil
	}
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		kept, err = decodeSession(refused.Item)
		return kept, cmp.Or(err, session.ErrConflict)
	}
	return session.Session{}, x.s.explain(err)
}

// Delete implements [session.Store].
func (x *Sessions) Delete(ctx context.Context, k session.Key, s session.Session) (err error) {
	defer store.Wrap(&err, "delete session of %q", k.Server)
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = x.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &x.s.table, Key: sessionKey(k),
		ConditionExpression:                 aws.String("session_id = :own AND expires_at <= :expires"),
		ExpressionAttributeValues:           item{":own": text(s.ID.Reveal()), ":expires": number(s.Expires.Unix())},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, x.s.options)
	refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	switch {
	case !ok:
		return x.s.explain(err)
	case textOf(refused.Item["session_id"]) != s.ID.Reveal():
		return nil
	}
	return session.ErrConflict
}

func decodeSession(it item) (session.Session, error) {
	seconds, err := numberOf(it["expires_at"])
	if err != nil {
		return session.Session{}, broken(it, fmt.Errorf("expires_at: %w", err))
	}
	return session.Session{
		ID: secret.New(textOf(it["session_id"])), Version: textOf(it["protocol_version"]), Expires: time.Unix(seconds, 0).UTC(),
	}, nil
}

func sessionKey(k session.Key) item {
	return item{"PK": text("SESSION#" + k.ID()), "SK": text("SESSION")}
}
