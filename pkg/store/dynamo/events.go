package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

const (
	eventsKey = "AUDIT#@gateway"
	stateSK   = "STATE#" // it sorts after the keys of all events, which start with a time

	// The number of lines that one query examines, and the number of queries of one read.
	eventsQuery   = 200
	eventsQueries = 5
)

// Events is an [audit.Events] in the table of the approvals. Writing needs only a role that may put
// and update items; it reads nothing.
type Events struct{ s *Store }

var _ audit.Events = (*Events)(nil)

// NewEvents returns the events of the named table, with the default options if o is nil. It makes
// no request.
func NewEvents(db api, table string, o *store.Options) *Events { return &Events{New(db, table, o)} }

// PutEvent implements [audit.Events].
func (x *Events) PutEvent(ctx context.Context, l audit.Line) (err error) {
	defer store.Wrap(&err, "put event %q", l.Action)
	it, err := x.encode(l)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	_, err = x.s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &x.s.table, Item: it}, x.s.options)
	return x.s.explain(err) // the client's retry of a write stores the same item
}

// PutChange implements [audit.Events]. If the answer to a write is lost, and the client sends the
// write again, PutChange returns false although it wrote the line.
func (x *Events) PutChange(ctx context.Context, l audit.Line, state string) (_ bool, err error) {
	defer store.Wrap(&err, "put change of %q", l.Subject)
	it, err := x.encode(l)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return false, err
	}
	mark := &types.Update{
		TableName: &x.s.table, Key: item{"PK": text(eventsKey), "SK": text(stateSK + l.Subject)},
		UpdateExpression:          aws.String("SET #state = :state"),
		ConditionExpression:       aws.String("attribute_not_exists(PK) OR #state <> :state"),
		ExpressionAttributeNames:  map[string]string{"#state": "state"}, // reserved word
		ExpressionAttributeValues: item{":state": text(state)},
	}
	in := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Update: mark}, {Put: &types.Put{TableName: &x.s.table, Item: it}},
	}}
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		_, err = x.s.db.TransactWriteItems(ctx, in, x.s.options)
		switch {
		case err == nil:
			return true, nil
		case hasReason(err, "ConditionalCheckFailed"):
			return false, nil
		case !hasReason(err, "TransactionConflict") || wait > time.Second:
			return false, x.s.explain(err)
		}
		select { // another write is active: the next attempt sees its result
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// encode returns the item of a line.
func (x *Events) encode(l audit.Line) (item, error) {
	data, err := json.Marshal(l)
	if err := cmp.Or(audit.CheckEvent(l), err); err != nil {
		return nil, err
	}
	it := item{
		"PK": text(eventsKey), "SK": text(eventTime(l.Time) + "#" + rand.Text()),
		"line": text(string(data)),
	}
	if x.s.o.KeepAudit > 0 {
		it["expires_at"] = number(l.Time.Add(x.s.o.KeepAudit).Unix())
	}
	return it, nil
}

// Events implements [audit.Events].
func (x *Events) Events(ctx context.Context, f audit.Filter, after audit.Cursor, limit int) (lines []audit.Line, next audit.Cursor, err error) {
	defer store.Wrap(&err, "read events")
	from, to := "0", "9"
	if !f.Since.IsZero() {
		from = eventTime(f.Since)
	}
	if !f.Until.IsZero() {
		to = eventTime(f.Until) // it equals no key, because each key has a suffix
	}
	in := &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND SK BETWEEN :from AND :to"),
		ScanIndexForward:       aws.Bool(false), ConsistentRead: aws.Bool(true), TableName: &x.s.table,
		Limit: aws.Int32(int32(min(max(limit, 1), eventsQuery))),
	}
	if f != (audit.Filter{Since: f.Since, Until: f.Until}) {
		in.Limit = aws.Int32(eventsQuery)
	}
	if after != "" && checkEventKey(string(after)) != nil {
		return nil, "", audit.ErrCursor
	}
	if after != "" && string(after) < to {
		in.ExclusiveStartKey = item{"PK": text(eventsKey), "SK": text(string(after))}
	}
	if from > to || after != "" && string(after) < from || limit <= 0 {
		return nil, "", ctx.Err()
	}
	in.ExpressionAttributeValues = item{":pk": text(eventsKey), ":from": text(from), ":to": text(to)}
	return x.query(ctx, in, f, limit)
}

// query returns the first lines that f selects, from a limited number of queries.
func (x *Events) query(ctx context.Context, in *dynamodb.QueryInput, f audit.Filter, limit int) (lines []audit.Line, next audit.Cursor, err error) {
	for range eventsQueries {
		p, err := retryGarbled(func() (page[audit.Line], error) { return queryPage(ctx, x.s, in, decodeEvent) })
		if err != nil {
			return nil, "", err
		}
		for n, l := range p.items {
			if next = l.Cursor; f.Wants(l) {
				lines = append(lines, l)
			}
			if len(lines) == limit && (n+1 < len(p.items) || len(p.next) > 0) {
				return lines, next, nil
			}
		}
		if len(p.next) == 0 {
			return lines, "", nil
		}
		in.ExclusiveStartKey = p.next
	}
	return lines, next, nil
}

// decodeEvent returns the line of an item.
func decodeEvent(it item) (l audit.Line, err error) {
	if err = json.Unmarshal([]byte(textOf(it["line"])), &l); err == nil {
		err = checkEventKey(textOf(it["SK"]))
	}
	if err != nil {
		return audit.Line{}, broken(it, err)
	}
	l.Cursor = audit.Cursor(textOf(it["SK"]))
	return l, nil
}

func eventTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// checkEventKey returns an error for a sort key that belongs to no event.
func checkEventKey(sk string) error {
	at, random, ok := strings.Cut(sk, "#")
	if !ok || random == "" || len(sk) > 100 {
		return errors.New("the key does not belong to an audit event")
	}
	_, err := time.Parse(timeLayout, at)
	return err
}
