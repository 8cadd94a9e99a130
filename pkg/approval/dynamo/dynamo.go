// Package dynamo keeps approvals in one DynamoDB table.
//
//	PK              SK                       what
//	SRV#<server>    TOOL#<tool>              a record; also in the index "feed"
//	BASE#<hash>     <kind>                   when the first list of a server was taken, by its identity
//	SRV#<server>    BASELINE                 the same by its name, of an earlier version
//	AUDIT#<server>  <time>#<tool>            who did what
//	TOKENS          <id>                     an agent token
//	SESSION#<key>   SESSION                  an agent's session with an upstream server, until expires_at
//
// The index "feed" has all records under one partition key, sorted by
// updated_at. That holds a thousand writes a second, far above what people and a sync do.
package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

const (
	feedIndex  = "feed"
	feedKey    = "records"
	timeLayout = "2006-01-02T15:04:05.000000000Z" // of one width, so that it sorts
)

// api is the part of *dynamodb.Client that a Store calls.
type api interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// A Store is an [approval.Store] with [approval.Baselines] in a table.
type Store struct {
	db    api
	table string
	now   func() time.Time
	retry aws.Retryer
}

var _ approval.Store = (*Store)(nil)

// New returns a Store on the named table. It makes no call. now nil means
// time.Now. Throttled calls are asked again until their context ends, at
// most 12 times.
func New(db api, table string, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{db, table, now, newRetryer()}
}

// item is the wire form of a DynamoDB item or key.
type item = map[string]types.AttributeValue

// Get implements [approval.Store].
func (s *Store) Get(ctx context.Context, id tool.ID) (approval.Record, error) {
	it, err := s.get(ctx, recordKey(id))
	if err != nil {
		return approval.Record{}, fmt.Errorf("get approval %q: %w", id, err)
	}
	r, err := decode(it)
	if err != nil {
		return approval.Record{}, fmt.Errorf("get approval %q: %w", id, err)
	}
	return r, nil
}

// Changes implements [approval.Store].
func (s *Store) Changes(ctx context.Context, since time.Time) ([]approval.Record, error) {
	var changed []approval.Record
	err := s.query(ctx, &dynamodb.QueryInput{
		IndexName:                 aws.String(feedIndex),
		KeyConditionExpression:    aws.String("feed = :feed AND updated_at >= :since"),
		ExpressionAttributeValues: item{":feed": text(feedKey), ":since": text(since.UTC().Format(timeLayout))},
	}, func(it item) (bool, error) {
		r, err := decode(it)
		changed = append(changed, r)
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("changes of approvals: %w", err)
	}
	return changed, nil
}

// Put implements [approval.Store]. If the answer to a write is lost, the client
// asks again, and the table refuses: the revision has changed, by that very
// write. So each write carries an id, and a refused one looks whose the record is.
func (s *Store) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	if err := cmp.Or(ctx.Err(), approval.CheckPut(r, e)); err != nil {
		return approval.Record{}, fmt.Errorf("put approval %q: %w", r.ID(), err)
	}
	read := r.Rev
	r.Rev++
	r.UpdatedAt = later(s.now(), r.UpdatedAt)
	id := rand.Text()
	it, err := encode(r, id)
	if err != nil {
		return approval.Record{}, fmt.Errorf("put approval %q: %w", r.ID(), err)
	}
	put := types.Put{TableName: &s.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)")}
	if read > 0 {
		put.ConditionExpression = aws.String("rev = :rev")
		put.ExpressionAttributeValues = item{":rev": number(read)}
	}
	if e == nil {
		_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: put.TableName, Item: put.Item, ConditionExpression: put.ConditionExpression,
			ExpressionAttributeValues: put.ExpressionAttributeValues,
		}, s.options)
	} else {
		err = s.putBoth(ctx, put, r, *e)
	}
	if err != nil {
		err = s.explain(err)
		if !errors.Is(err, approval.ErrConflict) || !s.wrote(ctx, r.ID(), id) {
			return approval.Record{}, fmt.Errorf("put approval %q: %w", r.ID(), err)
		}
	}
	return r, nil
}

// putBoth writes the record and its audit line in one transaction.
func (s *Store) putBoth(ctx context.Context, record types.Put, r approval.Record, e approval.Entry) error {
	e.Rev = r.Rev
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	audit := types.Put{TableName: &s.table, Item: item{
		"PK": text("AUDIT#" + r.Server), "SK": text(r.UpdatedAt.Format(timeLayout) + "#" + r.Tool),
		"entry": text(string(line)),
	}}
	_, err = s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{{Put: &record}, {Put: &audit}},
	}, s.options)
	return err
}

// wrote reports whether the record that the table holds is the one of the write with
// the given id. If that cannot be told the write counts as refused, and the caller reads again.
func (s *Store) wrote(ctx context.Context, id tool.ID, writeID string) bool {
	it, err := s.get(ctx, recordKey(id))
	return err == nil && textOf(it["write_id"]) == writeID
}

// Audit implements [approval.Store].
func (s *Store) Audit(ctx context.Context, server string, limit int) ([]approval.Entry, error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	var lines []approval.Entry
	err := s.query(ctx, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": text("AUDIT#" + server)},
		ScanIndexForward:          aws.Bool(false),
		ConsistentRead:            aws.Bool(true),
		Limit:                     aws.Int32(int32(min(limit, 1000))),
	}, func(it item) (bool, error) {
		var e approval.Entry
		err := json.Unmarshal([]byte(textOf(it["entry"])), &e)
		lines = append(lines, e)
		return len(lines) < limit, err
	})
	if err != nil {
		return nil, fmt.Errorf("audit of %q: %w", server, err)
	}
	return lines, nil
}

// get reads an item strongly consistently.
func (s *Store) get(ctx context.Context, key item) (item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: key, ConsistentRead: aws.Bool(true)}, s.options)
	if err != nil {
		return nil, s.explain(err)
	}
	if out.Item == nil {
		return nil, approval.ErrNotFound
	}
	return out.Item, nil
}

// query gives every item of every page to each, until that wants no more.
func (s *Store) query(ctx context.Context, in *dynamodb.QueryInput, each func(item) (more bool, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in.TableName = &s.table
	for {
		out, err := s.db.Query(ctx, in, s.options)
		if err != nil {
			return s.explain(err)
		}
		for _, it := range out.Items {
			if more, err := each(it); err != nil || !more {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
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

// encode returns the item of a record. The definitions are bytes of their own: in
// JSON they would lose their white space, and base64 would take a third more of the
// 400 KB that an item may have.
func encode(r approval.Record, writeID string) (item, error) {
	it := recordKey(r.ID())
	for name, definition := range map[string][]byte{"approved": r.Approved, "current": r.Current} {
		if definition != nil {
			it[name] = &types.AttributeValueMemberB{Value: definition}
		}
	}
	r.Approved, r.Current = nil, nil
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	it["record"] = text(string(data))
	it["rev"] = number(r.Rev)
	it["write_id"] = text(writeID)
	it["feed"] = text(feedKey)
	it["updated_at"] = text(r.UpdatedAt.Format(timeLayout))
	return it, nil
}

// decode is the inverse of encode.
func decode(it item) (r approval.Record, err error) {
	if err := json.Unmarshal([]byte(textOf(it["record"])), &r); err != nil {
		return approval.Record{}, fmt.Errorf("item %q %q: %w", textOf(it["PK"]), textOf(it["SK"]), err)
	}
	if b, ok := it["approved"].(*types.AttributeValueMemberB); ok {
		r.Approved = b.Value
	}
	if b, ok := it["current"].(*types.AttributeValueMemberB); ok {
		r.Current = b.Value
	}
	return r, nil
}

func recordKey(id tool.ID) item {
	return item{"PK": text("SRV#" + id.Server), "SK": text("TOOL#" + id.Name)}
}

// later returns now, or just after last if the clock is not past that.
func later(now, last time.Time) time.Time {
	now = now.UTC().Round(0)
	if !now.After(last) {
		return last.UTC().Add(time.Nanosecond)
	}
	return now
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// textOf returns the string of v, "" if it is none.
func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
