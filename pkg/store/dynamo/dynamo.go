// Package dynamo keeps approvals, their audit and small documents in one DynamoDB table.
//
//	PK              SK                       content
//	SRV#<server>    TOOL#<tool>              a record; if decided, also in the index
//	SRV#<server>    PROMPT#<prompt>          a record of a prompt
//	SRV#<server>    RES#<SHA-256 of the URI> a record of a resource, or a template
//	BASE#<hash>     <kind>                   when a server's first list was approved, by identity
//	SRV#<server>    BASELINE                 the same by server name, from an earlier version
//	AUDIT#<server>  <time>#<tool>            an audit line of a server
//	AUDIT#@gateway  <time>#<random>          an audit event of the gateway; no server has this name
//	AUDIT#@gateway  STATE#<subject>          the state of a subject after its last change
//	STOP            STOP                     the stops that people made
//	TOKENS          <id>                     an agent token
//	SESSION#<key>   SESSION                  an agent's upstream session, until expires_at
//	LOGIN#SESSIONS  <id>                     a person's session with a browser, until expires_at
//	OUTBOX#OPEN     <slot>                   a notice to send to people
//	OUTBOX#SEEN     <id>                     marks an event with a stored notice, until expires_at
//	ASK#<agent>     ASKED                    an agent's requests
//	ASK#<agent>     ARGS#<request>           the arguments of a requested call, until expires_at
//	ASK#            <request>                the agent of a request, until expires_at
//	GRANT#<agent>   GRANTED                  people's decisions about the requests
//	USED#<request>  USED                     marks a confirmed call as made, until expires_at
//	PAGE#<client>   PAGE                     whose page a client opened last, until expires_at
//
// Everything except records and the audit is a [document.Doc]. The attributes of each kind are in
// form.go. They are the attributes of earlier versions, so that both versions read and write the
// same items during a deploy and after a rollback.
//
// The index "decisions" has the records that people decided about, without the definitions. All are
// under one partition key and sorted by decided_at. One partition accepts a thousand writes per
// second, far more than people make. Items that only a sync has seen are not in the index.
package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

const (
	feedIndex  = "decisions"
	timeLayout = document.TimeLayout
)

// api has the methods of *dynamodb.Client that a Store calls.
type api interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// A Store is an [approval.Store] and a [document.Store] in a table.
type Store struct {
	db       api
	table    string
	o        store.Options
	retry    aws.Retryer
	docRetry aws.Retryer
}

var _ approval.Store = (*Store)(nil)

// New returns a Store on the named table, with the default options if o is nil. New
// sends no request. The client tries a throttled call up to 12 times, until its context ends.
func New(db api, table string, o *store.Options) *Store {
	return &Store{db: db, table: table, o: o.OrDefault(), retry: newRetryer(), docRetry: newDocRetryer()}
}

// item is a DynamoDB item or key in its wire form.
type item = map[string]types.AttributeValue

// Get implements [approval.Store].
func (s *Store) Get(ctx context.Context, id tool.ID) (r approval.Record, err error) {
	defer store.Wrap(&err, "get approval %q", id)
	return read(ctx, s, recordKey(id), decode)
}

// Peek implements [approval.Store]. It costs half as much as Get, and may return an old record.
func (s *Store) Peek(ctx context.Context, id tool.ID) (r approval.Record, err error) {
	defer store.Wrap(&err, "peek at approval %q", id)
	return readItem(ctx, s, recordKey(id), false, decode)
}

// Records implements [approval.Store].
func (s *Store) Records(ctx context.Context, server string) ([]approval.Record, error) {
	all, _, err := s.RecordsIfChanged(ctx, server, "")
	return all, err
}

// Changes implements [approval.Store].
func (s *Store) Changes(ctx context.Context, since time.Time, after string) (decided []approval.Decision, next string, err error) {
	defer store.Wrap(&err, "changes of approvals")
	from, err := decodeMark(after)
	if err != nil {
		return nil, "", err
	}
	in := &dynamodb.QueryInput{
		TableName: &s.table, IndexName: aws.String(feedIndex),
		KeyConditionExpression:    aws.String("feed = :feed AND decided_at >= :since"),
		ExpressionAttributeValues: item{":feed": text(feedKey), ":since": text(since.UTC().Format(timeLayout))},
		ExclusiveStartKey:         from,
	}
	p, err := retryGarbled(func() (page[approval.Decision], error) { return queryPage(ctx, s, in, decodeDecision) })
	return p.items, encodeMark(p.next), err
}

// Put implements [approval.Store].
func (s *Store) Put(ctx context.Context, r approval.Record, e *approval.Entry) (_ approval.Record, err error) {
	defer store.Wrap(&err, "put approval %q", r.ID())
	next, id := r.Next(s.o.Now()), rand.Text()
	up, err := encode(next, id)
	if err := cmp.Or(ctx.Err(), approval.CheckPut(r, e), err); err != nil {
		return approval.Record{}, err
	}
	up.TableName, up.ConditionExpression = &s.table, aws.String("attribute_not_exists(PK)")
	if r.Rev > 0 {
		up.ConditionExpression = aws.String("#rev = :read")
		up.ExpressionAttributeValues[":read"] = number(r.Rev)
	}
	if e == nil {
		_, err = s.db.UpdateItem(ctx, updateInput(up), s.options)
	} else {
		err = s.putBoth(ctx, up, next, next.Line(*e))
	}
	if err := s.writeError(ctx, up.Key, id, err); err != nil {
		return approval.Record{}, err
	}
	return next, nil
}

// putBoth writes the record and its audit line in one transaction.
func (s *Store) putBoth(ctx context.Context, record types.Update, r approval.Record, e approval.Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	audit := types.Put{TableName: &s.table, Item: item{
		"PK": text("AUDIT#" + r.Server), "SK": text(auditKey(e.Cursor())),
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

// writeError returns the error of the write with the id, or nil if the write took effect. err is
// the error of the request. If the answer to a write is lost, the client sends the write again. The
// table refuses the second attempt, because the first attempt has changed the revision. So each
// write has an id, which is stored in the item. After a refusal, or an answer that cannot be
// decoded, writeError reads the id of the stored item. If it cannot read the item, it returns the
// error of the write, and the caller reads again.
func (s *Store) writeError(ctx context.Context, key item, id string, err error) error {
	if err = s.explain(err); errors.Is(err, approval.ErrConflict) || isGarbled(err) {
		if stored, unread := read(ctx, s, key, writeIDOf); unread == nil && stored == id {
			return nil
		}
	}
	return err
}

// Audit implements [approval.Store].
func (s *Store) Audit(ctx context.Context, server string, after approval.Cursor, limit int) (lines []approval.Entry, err error) {
	defer store.Wrap(&err, "audit of %q", server)
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
	if after != (approval.Cursor{}) {
		in.KeyConditionExpression = aws.String("PK = :pk AND SK < :after")
		in.ExpressionAttributeValues[":after"] = text(auditKey(after))
	}
	return query(ctx, s, in, decodeEntry)
}

// options sets the retryer of a call.
func (s *Store) options(o *dynamodb.Options) { o.Retryer = s.retry }

// docOptions sets the retryer of a write of a document. See newDocRetryer.
func (s *Store) docOptions(o *dynamodb.Options) { o.Retryer = s.docRetry }

// explain converts an error of DynamoDB.
func (s *Store) explain(err error) error {
	_, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	if refused || isContended(err) || hasReason(err, conditionFailed) {
		return approval.ErrConflict
	}
	return s.nameTable(err)
}

// nameTable adds the name of the table to the error for a missing table.
func (s *Store) nameTable(err error) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return fmt.Errorf("table %q, or its index %q, does not exist: %w", s.table, feedIndex, err)
	}
	return err
}

// isContended reports whether another transaction writes one of the items now.
func isContended(err error) bool {
	_, one := errors.AsType[*types.TransactionConflictException](err)
	return one || hasReason(err, "TransactionConflict")
}

// conditionFailed is the cancellation reason for a failed condition.
const conditionFailed = "ConditionalCheckFailed"

// hasReason reports whether err is a cancelled transaction with one of the codes.
func hasReason(err error, codes ...string) bool {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	return ok && slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
		return slices.Contains(codes, aws.ToString(r.Code))
	})
}
