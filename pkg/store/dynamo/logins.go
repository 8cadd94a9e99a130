package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// loginsKey is the partition of all sessions of people; the sort key is the session's id. There
// are some hundred at most, and one partition can be listed.
const loginsKey = "LOGIN#SESSIONS"

// Logins is a [login.Store] in the table of the approvals. The table removes expired items up to
// days later, so every read compares the time as well.
type Logins struct {
	db deleter
	s  *Store
}

var _ login.Store = (*Logins)(nil)

// NewLogins returns the sessions of people in the named table. It makes no call. now nil means
// time.Now.
func NewLogins(db deleter, table string, now func() time.Time) *Logins {
	return &Logins{db, New(db, table, &store.Options{Now: now})}
}

// Get implements [login.Store].
func (x *Logins) Get(ctx context.Context, id string) (s login.Session, err error) {
	defer store.Wrap(&err, "get login %q", id)
	s, err = read(ctx, x.s, loginKey(id), decodeLogin)
	if err == nil && !s.Live(x.s.o.Now()) {
		return login.Session{}, login.ErrNotFound
	}
	return s, as(err, approval.ErrNotFound, login.ErrNotFound)
}

// Put implements [login.Store].
func (x *Logins) Put(ctx context.Context, s login.Session) (next login.Session, err error) {
	defer store.Wrap(&err, "put login %q", s.ID)
	next, data, err := s.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return login.Session{}, err
	}
	key, writeID := loginKey(s.ID), rand.Text()
	it := loginKey(s.ID)
	it["login"], it["rev"], it["write_id"] = text(string(data)), number(next.Rev), text(writeID)
	it["expires_at"] = ttl(s.Expires)
	in := &dynamodb.PutItemInput{TableName: &x.s.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)")}
	if s.Rev > 0 {
		in.ConditionExpression, in.ExpressionAttributeValues = aws.String("rev = :rev"), item{":rev": number(s.Rev)}
	}
	_, err = x.s.db.PutItem(ctx, in, x.s.options)
	if err := x.s.written(ctx, key, writeID, err); err != nil {
		return login.Session{}, as(err, approval.ErrConflict, login.ErrConflict)
	}
	return next, nil
}

// Delete implements [login.Store].
func (x *Logins) Delete(ctx context.Context, id string) (err error) {
	defer store.Wrap(&err, "delete login %q", id)
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = x.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &x.s.table, Key: loginKey(id)}, x.s.options)
	return x.s.explain(err)
}

// List implements [login.Store]. What cannot be read signs nobody in, and keeps nobody out.
func (x *Logins) List(ctx context.Context) (live []login.Session, err error) {
	defer store.Wrap(&err, "list logins")
	all, err := query(ctx, x.s, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": text(loginsKey)},
		ConsistentRead:            aws.Bool(true),
	}, func(it item) (login.Session, error) {
		s, _ := decodeLogin(it) // the zero Session is not live
		return s, nil
	})
	for _, s := range all {
		if s.Live(x.s.o.Now()) {
			live = append(live, s)
		}
	}
	return live, err
}

func decodeLogin(it item) (login.Session, error) {
	s, err := login.Decode([]byte(textOf(it["login"])))
	if err != nil {
		return login.Session{}, broken(it, err)
	}
	return s, nil
}

func loginKey(id string) item { return item{"PK": text(loginsKey), "SK": text(id)} }
