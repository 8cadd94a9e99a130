package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
)

// sessionAPI is what Sessions calls beside a Store's calls.
type sessionAPI interface {
	api
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// Sessions is a [session.Store] in the table of the approvals. The table removes what
// expired in its own time, up to days later, so every call looks at the time as well.
//
// A session's id is kept in clear: it is of little use an hour later, the table is
// encrypted, and one role alone reads these items. A key that is made of the server's own
// credential would hide the id, and let guesses at that credential be tried on each item.
type Sessions struct {
	db sessionAPI
	s  *Store // for its reads
}

var _ session.Store = (*Sessions)(nil)

// NewSessions returns the sessions of the named table. It makes no call. now nil means
// time.Now.
func NewSessions(db sessionAPI, table string, now func() time.Time) *Sessions {
	return &Sessions{db, New(db, table, &Options{Now: now})}
}

// Get implements [session.Store].
func (x *Sessions) Get(ctx context.Context, k session.Key) (session.Session, error) {
	s, err := read(ctx, x.s, sessionKey(k), decodeSession)
	if errors.Is(err, approval.ErrNotFound) {
		err = session.ErrNotFound
	}
	if err == nil && !s.Expires.After(x.s.o.Now()) {
		err = session.ErrNotFound
	}
	if err != nil {
		return session.Session{}, fmt.Errorf("get session of %q: %w", k.Server, err)
	}
	return s, nil
}

// Put implements [session.Store]. A write whose answer was lost is made again by the
// client, and finds its own session, which it may replace.
func (x *Sessions) Put(ctx context.Context, k session.Key, s session.Session, old secret.Text) (session.Session, error) {
	if err := ctx.Err(); err != nil {
		return session.Session{}, fmt.Errorf("put session of %q: %w", k.Server, err)
	}
	it := sessionKey(k)
	it["session_id"] = text(s.ID.Reveal())
	it["protocol_version"] = text(s.Version)
	it["expires_at"] = number(s.Expires.Unix())
	_, err := x.db.PutItem(ctx, &dynamodb.PutItemInput{
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
	var kept session.Session
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		if kept, err = decodeSession(refused.Item); err == nil {
			err = session.ErrConflict
		}
	} else {
		err = x.s.explain(err)
	}
	return kept, fmt.Errorf("put session of %q: %w", k.Server, err)
}

// Delete implements [session.Store].
func (x *Sessions) Delete(ctx context.Context, k session.Key, s session.Session) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete session of %q: %w", k.Server, err)
	}
	_, err := x.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &x.s.table, Key: sessionKey(k),
		ConditionExpression:                 aws.String("session_id = :own AND expires_at <= :expires"),
		ExpressionAttributeValues:           item{":own": text(s.ID.Reveal()), ":expires": number(s.Expires.Unix())},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, x.s.options)
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		if textOf(refused.Item["session_id"]) != s.ID.Reveal() {
			return nil
		}
		err = session.ErrConflict
	} else {
		err = x.s.explain(err)
	}
	return fmt.Errorf("delete session of %q: %w", k.Server, err)
}

func decodeSession(it item) (session.Session, error) {
	expires, ok := it["expires_at"].(*types.AttributeValueMemberN)
	if !ok {
		return session.Session{}, broken(it, errors.New("it has no expiry"))
	}
	seconds, err := strconv.ParseInt(expires.Value, 10, 64)
	if err != nil {
		return session.Session{}, broken(it, err)
	}
	return session.Session{
		ID: secret.New(textOf(it["session_id"])), Version: textOf(it["protocol_version"]), Expires: time.Unix(seconds, 0).UTC(),
	}, nil
}

func sessionKey(k session.Key) item {
	return item{"PK": text("SESSION#" + k.ID()), "SK": text("SESSION")}
}
