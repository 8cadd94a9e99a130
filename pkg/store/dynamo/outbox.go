package dynamo

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/notify"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

const (
	outboxOpenPK = "OUTBOX#OPEN" // with a slot: a notice that waits
	outboxSeenPK = "OUTBOX#SEEN" // with the id of an event: it was put

	// How many slots one event is tried in. They are a hash of its id, so that nothing has to be read
	// to find a free one, and there are as many as notices may wait.
	slotTries = 6

	// keepNotice is when the table removes a notice that no sync has given up, since none runs.
	keepNotice = 3 * notify.GiveUpAfter

	outboxPages = 8 // of a megabyte
)

// Outbox is a [notify.Outbox] in the table of the approvals. A role that may put items is enough to
// put; the one that sends also queries, updates and deletes them.
type Outbox struct {
	db deleter
	s  *Store
}

var _ notify.Outbox = (*Outbox)(nil)

// NewOutbox returns what people are to be told. It makes no call. now nil means time.Now.
func NewOutbox(db deleter, table string, now func() time.Time) *Outbox {
	return &Outbox{db, New(db, table, &store.Options{Now: now})}
}

// Put implements [notify.Outbox]. An event whose slots are all taken finds the outbox full: while few
// notices wait that does not happen, with half of the slots taken it does to one in sixty.
func (x *Outbox) Put(ctx context.Context, e notify.Event) (err error) {
	defer store.Wrap(&err, "put notice")
	now := x.s.o.Now()
	n, data, err := notify.NewNotice(e, now).Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	seen := item{"PK": text(outboxSeenPK), "SK": text(n.Event.ID), "expires_at": number(now.Add(notify.Remember).Unix() + 1)}
	open := item{"PK": text(outboxOpenPK), "doc": text(string(data)), "rev": number(n.Rev), "event_id": text(n.Event.ID), "expires_at": number(now.Add(keepNotice).Unix())}
	in := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{
			TableName: &x.s.table, Item: seen, ConditionExpression: aws.String("attribute_not_exists(PK) OR expires_at <= :now"),
			ExpressionAttributeValues: item{":now": number(now.Unix())},
		}},
		{Put: &types.Put{TableName: &x.s.table, Item: open, ConditionExpression: aws.String("attribute_not_exists(PK)")}},
	}}
	for try := 0; try < slotTries; {
		open["SK"] = text(slotOf(n.Event.ID, try))
		_, err := x.s.db.TransactWriteItems(ctx, in, x.s.options)
		switch {
		case err == nil || failed(err, 0): // or it was put before, perhaps by this very call
			return nil
		case failed(err, 1):
			try++
		case !hasReason(err, "TransactionConflict"):
			return x.s.explain(err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return notify.ErrFull
}

// failed reports whether err is a transaction that was cancelled by the condition of its nth item.
func failed(err error, n int) bool {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	return ok && n < len(cancelled.CancellationReasons) && aws.ToString(cancelled.CancellationReasons[n].Code) == "ConditionalCheckFailed"
}

// slotOf returns the slot of an event that is tried after so many others.
func slotOf(id string, try int) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // which never fails
	_, _ = h.Write([]byte{byte(try)})
	return strconv.FormatUint(h.Sum64()%notify.MaxOpen, 10)
}

// Pending implements [notify.Outbox].
func (x *Outbox) Pending(ctx context.Context) (list []notify.Notice, err error) {
	defer store.Wrap(&err, "list notices")
	in := &dynamodb.QueryInput{
		TableName: &x.s.table, KeyConditionExpression: aws.String("PK = :pk"), ExpressionAttributeValues: item{":pk": text(outboxOpenPK)}, ConsistentRead: aws.Bool(true),
	}
	for range outboxPages {
		p, err := again(func() (page[notify.Notice], error) { return queryPage(ctx, x.s, in, decodeNotice) })
		if err != nil {
			return nil, err
		}
		list = append(list, p.items...)
		if in.ExclusiveStartKey = p.next; len(p.next) == 0 {
			break
		}
	}
	notify.SortNotices(list)
	return list, nil
}

func decodeNotice(it item) (notify.Notice, error) {
	n, err := notify.DecodeNotice([]byte(textOf(it["doc"])))
	if err != nil {
		return notify.Notice{}, broken(it, err)
	}
	n.Slot = textOf(it["SK"])
	return n, nil
}

// Change implements [notify.Outbox]. If the answer to the write is lost, and the write is sent again and
// refused, it returns [notify.ErrTaken] although it was made: the notice is sent when it is due again.
func (x *Outbox) Change(ctx context.Context, n notify.Notice) (_ notify.Notice, err error) {
	defer store.Wrap(&err, "change notice")
	next, data, err := n.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return notify.Notice{}, err
	}
	_, err = x.s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &x.s.table, Key: noticeKey(n), UpdateExpression: aws.String("SET doc = :doc, rev = :next"),
		ConditionExpression:       aws.String("rev = :rev AND event_id = :event"),
		ExpressionAttributeValues: item{":doc": text(string(data)), ":next": number(next.Rev), ":rev": number(n.Rev), ":event": text(n.Event.ID)},
	}, x.s.options)
	if err != nil {
		return notify.Notice{}, as(x.s.explain(err), approval.ErrConflict, notify.ErrTaken)
	}
	return next, nil
}

// Remove implements [notify.Outbox].
func (x *Outbox) Remove(ctx context.Context, n notify.Notice) (err error) {
	defer store.Wrap(&err, "remove notice")
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = x.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &x.s.table, Key: noticeKey(n), ConditionExpression: aws.String("rev = :rev AND event_id = :event"),
		ExpressionAttributeValues: item{":rev": number(n.Rev), ":event": text(n.Event.ID)},
	}, x.s.options)
	return as(x.s.explain(err), approval.ErrConflict, notify.ErrTaken)
}

func noticeKey(n notify.Notice) item { return item{"PK": text(outboxOpenPK), "SK": text(n.Slot)} }
