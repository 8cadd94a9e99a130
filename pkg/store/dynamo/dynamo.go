// Package dynamo keeps approvals in one DynamoDB table.
//
//	PK              SK                       what
//	SRV#<server>    TOOL#<tool>              a record; a decided one also in the index "decisions"
//	BASE#<hash>     <kind>                   when the first list of a server was taken, by its identity
//	SRV#<server>    BASELINE                 the same by its name, of an earlier version
//	AUDIT#<server>  <time>#<tool>            who did what
//	TOKENS          <id>                     an agent token
//	SESSION#<key>   SESSION                  an agent's session with an upstream server, until expires_at
//
// The index "decisions" has the records that people decided about under one partition
// key, sorted by decided_at, without their definitions. That holds a thousand writes a
// second, far above what people do; what a sync finds does not enter it.
package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

const (
	feedIndex  = "decisions"
	timeLayout = "2006-01-02T15:04:05.000000000Z" // of one width, so that it sorts
)

// api is the part of *dynamodb.Client that a Store calls.
type api interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// A Store is an [approval.Store] with [approval.Baselines] in a table.
type Store struct {
	db    api
	table string
	o     Options
	retry aws.Retryer
}

var _ approval.Store = (*Store)(nil)

// Options are the knobs of a [Store]. The zero value works.
type Options struct {
	Now       func() time.Time // nil: time.Now
	KeepAudit time.Duration    // how long audit lines are kept, at least; 0: for ever
}

// New returns a Store on the named table, with the default options if o is nil. It makes no
// call. Throttled calls are asked again until their context ends, at
// most 12 times.
func New(db api, table string, o *Options) *Store {
	s := &Store{db: db, table: table, retry: newRetryer()}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	return s
}

// item is the wire form of a DynamoDB item or key.
type item = map[string]types.AttributeValue

// Get implements [approval.Store].
func (s *Store) Get(ctx context.Context, id tool.ID) (approval.Record, error) {
	r, err := read(ctx, s, recordKey(id), decode)
	if err != nil {
		return approval.Record{}, fmt.Errorf("get approval %q: %w", id, err)
	}
	return r, nil
}

// Peek implements [approval.Store]. It takes half the units of Get, and may be late.
func (s *Store) Peek(ctx context.Context, id tool.ID) (approval.Record, error) {
	r, err := readItem(ctx, s, recordKey(id), false, decode)
	if err != nil {
		return approval.Record{}, fmt.Errorf("peek at approval %q: %w", id, err)
	}
	return r, nil
}

// Records implements [approval.Store].
func (s *Store) Records(ctx context.Context, server string) ([]approval.Record, error) {
	all, err := query(ctx, s, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk AND begins_with(SK, :tool)"),
		ExpressionAttributeValues: item{":pk": text(recordPK + server), ":tool": text(recordSK)},
		ConsistentRead:            aws.Bool(true),
	}, decode)
	if err != nil {
		return nil, fmt.Errorf("approvals of %q: %w", server, err)
	}
	return all, nil
}

// Changes implements [approval.Store].
func (s *Store) Changes(ctx context.Context, since time.Time, after string) ([]approval.Decision, string, error) {
	from, err := decodeMark(after)
	if err != nil {
		return nil, "", fmt.Errorf("changes of approvals: %w", err)
	}
	in := &dynamodb.QueryInput{
		TableName: &s.table, IndexName: aws.String(feedIndex),
		KeyConditionExpression:    aws.String("feed = :feed AND decided_at >= :since"),
		ExpressionAttributeValues: item{":feed": text(feedKey), ":since": text(since.UTC().Format(timeLayout))},
		ExclusiveStartKey:         from,
	}
	p, err := again(func() (page[approval.Decision], error) { return queryPage(ctx, s, in, decodeDecision) })
	if err != nil {
		return nil, "", fmt.Errorf("changes of approvals: %w", err)
	}
	return p.items, encodeMark(p.next), nil
}

// Put implements [approval.Store]. If the answer to a write is lost, the client
// asks again, and the table refuses: the revision has changed, by that very
// write. So each write carries an id, and a refused one looks whose the record is, as does
// one whose answer cannot be read.
func (s *Store) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	if err := cmp.Or(ctx.Err(), approval.CheckPut(r, e)); err != nil {
		return approval.Record{}, fmt.Errorf("put approval %q: %w", r.ID(), err)
	}
	next := r.Next(s.o.Now())
	id := rand.Text()
	up, err := encode(next, id)
	if err != nil {
		return approval.Record{}, fmt.Errorf("put approval %q: %w", r.ID(), err)
	}
	up.TableName, up.ConditionExpression = &s.table, aws.String("attribute_not_exists(PK)")
	if r.Rev > 0 {
		up.ConditionExpression = aws.String("#rev = :read")
		up.ExpressionAttributeValues[":read"] = number(r.Rev)
	}
	if e == nil {
		_, err = s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: up.TableName, Key: up.Key, UpdateExpression: up.UpdateExpression, ConditionExpression: up.ConditionExpression,
			ExpressionAttributeNames: up.ExpressionAttributeNames, ExpressionAttributeValues: up.ExpressionAttributeValues,
		}, s.options)
	} else {
		err = s.putBoth(ctx, up, next, *e)
	}
	if err != nil {
		err = s.explain(err)
		if !errors.Is(err, approval.ErrConflict) && !garbled(err) || !s.wrote(ctx, r.ID(), id) {
			return approval.Record{}, fmt.Errorf("put approval %q: %w", r.ID(), err)
		}
	}
	return next, nil
}

// putBoth writes the record and its audit line in one transaction.
func (s *Store) putBoth(ctx context.Context, record types.Update, r approval.Record, e approval.Entry) error {
	e.Rev = r.Rev
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	audit := types.Put{TableName: &s.table, Item: item{
		"PK": text("AUDIT#" + r.Server), "SK": text(auditKey(approval.Place{Written: r.UpdatedAt, Tool: r.Tool})),
		"entry": text(string(line)),
	}}
	if s.o.KeepAudit > 0 {
		audit.Item["expires_at"] = number(r.UpdatedAt.Add(s.o.KeepAudit).Unix())
	}
	_, err = s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{{Update: &record}, {Put: &audit}},
	}, s.options)
	return err
}

// wrote reports whether the record that the table holds is the one of the write with
// the given id. If that cannot be told the write counts as refused, and the caller reads again.
func (s *Store) wrote(ctx context.Context, id tool.ID, writeID string) bool {
	held, err := read(ctx, s, recordKey(id), writeIDOf)
	return err == nil && held == writeID
}

// Audit implements [approval.Store].
func (s *Store) Audit(ctx context.Context, server string, after approval.Place, limit int) ([]approval.Entry, error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	in := &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": text("AUDIT#" + server)},
		ScanIndexForward:          aws.Bool(false),
		ConsistentRead:            aws.Bool(true),
		Limit:                     aws.Int32(int32(min(limit, 1<<20))),
	}
	if after != (approval.Place{}) {
		in.KeyConditionExpression = aws.String("PK = :pk AND SK < :after")
		in.ExpressionAttributeValues[":after"] = text(auditKey(after))
	}
	lines, err := query(ctx, s, in, decodeEntry)
	if err != nil {
		return nil, fmt.Errorf("audit of %q: %w", server, err)
	}
	return lines, nil
}

// options sets the retries of one call.
func (s *Store) options(o *dynamodb.Options) { o.Retryer = s.retry }

// explain says what an answer of DynamoDB means.
func (s *Store) explain(err error) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return fmt.Errorf("table %q, or its index %q, does not exist: %w", s.table, feedIndex, err)
	}
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return approval.ErrConflict
	}
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return approval.ErrConflict
	}
	if hasReason(err, "ConditionalCheckFailed", "TransactionConflict") {
		return approval.ErrConflict
	}
	return err
}

// hasReason reports whether err is a cancelled transaction with one of the codes.
func hasReason(err error, codes ...string) bool {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return false
	}
	for _, reason := range cancelled.CancellationReasons {
		for _, code := range codes {
			if aws.ToString(reason.Code) == code {
				return true
			}
		}
	}
	return false
}
