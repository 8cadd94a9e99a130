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

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ request.Store = (*Store)(nil)

// Partitions of requests. What the function that agents call may write and what it may not lie in
// partitions of their own, since roles are bound by the first letters of these keys.
const (
	askPrefix   = "ASK#"   // and the key of an agent: what it asked for; with nothing after it: whose each request is
	grantPrefix = "GRANT#" // and the key of an agent: what people decided
	usedPrefix  = "USED#"  // and the id of a request: its confirmed call was made
)

// requestsPages is how many pages of a megabyte are read for the list of requests.
const requestsPages = 4

// Asked implements [request.Store].
func (s *Store) Asked(ctx context.Context, key string) (a request.Asked, err error) {
	defer store.Wrap(&err, "get requests")
	a, err = read(ctx, s, askedKey(key), decodeAsked)
	return a, as(err, approval.ErrNotFound, nil)
}

// PutAsked implements [request.Store].
func (s *Store) PutAsked(ctx context.Context, a request.Asked, added string, arguments json.RawMessage) (_ request.Asked, err error) {
	defer store.Wrap(&err, "put requests")
	next, data, err := a.Encode()
	r, wrong := a.Added(added, arguments)
	if err := cmp.Or(ctx.Err(), err, wrong); err != nil {
		return request.Asked{}, err
	}
	key := a.Agent.Key()
	put, writeID := s.putDoc(askedKey(key), "doc", data, a.Rev)
	if added == "" {
		err = s.putOne(ctx, put)
	} else {
		err = s.putAdded(ctx, put, key, r, arguments)
	}
	if err := s.written(ctx, askedKey(key), writeID, err); err != nil {
		return request.Asked{}, as(err, approval.ErrConflict, request.ErrConflict)
	}
	return next, nil
}

// putAdded writes, with the document of an agent, whose the request r is, and the arguments of its call.
func (s *Store) putAdded(ctx context.Context, doc *types.Put, key string, r request.Request, arguments json.RawMessage) error {
	whose := pointerKey(r.ID)
	whose["agent"], whose["expires"], whose["kept"] = text(key), timeText(r.Expires), timeText(r.Kept())
	whose["expires_at"] = ttl(r.Kept())
	items := []types.TransactWriteItem{{Put: doc}, {Put: &types.Put{
		TableName: &s.table, Item: whose, ConditionExpression: aws.String("attribute_not_exists(PK)"), // chance made an id twice
	}}}
	if len(arguments) > 0 {
		it := argumentsKey(key, r.ID)
		it["arguments"] = &types.AttributeValueMemberB{Value: arguments}
		it["expires"], it["expires_at"] = timeText(r.Expires), ttl(r.Expires)
		items = append(items, types.TransactWriteItem{Put: &types.Put{TableName: &s.table, Item: it}})
	}
	_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items}, s.options)
	return err
}

// putOne makes one write, which costs half of a transaction.
func (s *Store) putOne(ctx context.Context, put *types.Put) error {
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: put.TableName, Item: put.Item, ConditionExpression: put.ConditionExpression, ExpressionAttributeValues: put.ExpressionAttributeValues,
	}, s.options)
	return err
}

// putDoc returns the write of a document that is at the revision rev, into the attribute name, and the
// write's id.
func (s *Store) putDoc(key item, name string, data []byte, rev int64) (put *types.Put, writeID string) {
	writeID = rand.Text()
	key[name], key["rev"], key["write_id"] = text(string(data)), number(rev+1), text(writeID)
	put = &types.Put{TableName: &s.table, Item: key, ConditionExpression: aws.String("attribute_not_exists(PK)")}
	if rev > 0 {
		put.ConditionExpression, put.ExpressionAttributeValues = aws.String("rev = :rev"), item{":rev": number(rev)}
	}
	return put, writeID
}

// Granted implements [request.Store].
func (s *Store) Granted(ctx context.Context, key string) (g request.Granted, err error) {
	defer store.Wrap(&err, "get grants")
	g, err = read(ctx, s, grantedKey(key), decodeGranted)
	return g, as(err, approval.ErrNotFound, nil)
}

// PutGranted implements [request.Store].
func (s *Store) PutGranted(ctx context.Context, g request.Granted) (_ request.Granted, err error) {
	defer store.Wrap(&err, "put grants")
	next, data, err := g.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return request.Granted{}, err
	}
	key := g.Agent.Key()
	put, writeID := s.putDoc(grantedKey(key), "doc", data, g.Rev)
	if err := s.written(ctx, grantedKey(key), writeID, s.putOne(ctx, put)); err != nil {
		return request.Granted{}, as(err, approval.ErrConflict, request.ErrConflict)
	}
	return next, nil
}

// Use implements [request.Store]. If the answer to the write is lost and it is sent again, it finds its own
// note by its id.
func (s *Store) Use(ctx context.Context, id string, now, keep time.Time) (used time.Time, err error) {
	defer store.Wrap(&err, "use confirmation %s", id)
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	now = now.UTC().Truncate(time.Microsecond)
	writeID, it := rand.Text(), usedKey(id)
	it["used_at"], it["write_id"], it["expires_at"] = timeText(now), text(writeID), ttl(request.KeepUse(keep))
	err = s.putOne(ctx, &types.Put{TableName: &s.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)")})
	switch err = s.written(ctx, usedKey(id), writeID, err); {
	case err == nil:
		return now, nil
	case !errors.Is(err, approval.ErrConflict):
		return time.Time{}, err
	}
	if used, err = s.Used(ctx, id); err != nil {
		return time.Time{}, err
	}
	return used, request.ErrUsed
}

// Used implements [request.Store].
func (s *Store) Used(ctx context.Context, id string) (used time.Time, err error) {
	defer store.Wrap(&err, "look for use of %s", id)
	used, err = read(ctx, s, usedKey(id), func(it item) (time.Time, error) { return timeOf(it, "used_at") })
	return used, as(err, approval.ErrNotFound, nil)
}

// Arguments implements [request.Store].
func (s *Store) Arguments(ctx context.Context, key, id string) (arguments json.RawMessage, err error) {
	defer store.Wrap(&err, "get arguments of %s", id)
	arguments, err = read(ctx, s, argumentsKey(key, id), func(it item) (json.RawMessage, error) {
		kept := bytesOf(it["arguments"])
		if kept == nil { // they were dropped
			return nil, approval.ErrNotFound
		}
		expires, err := timeOf(it, "expires")
		if err == nil && !s.o.Now().Before(expires) { // the table removes it days later
			err = approval.ErrNotFound
		}
		return kept, err
	})
	if err != nil {
		return nil, as(err, approval.ErrNotFound, request.ErrNotFound)
	}
	return arguments, nil
}

// DropArguments implements [request.Store]. An item without arguments, which the table removes, takes
// their place: so no role has to be able to delete.
func (s *Store) DropArguments(ctx context.Context, key, id string) (err error) {
	defer store.Wrap(&err, "drop arguments of %s", id)
	if err := ctx.Err(); err != nil {
		return err
	}
	it := argumentsKey(key, id)
	it["expires_at"] = ttl(s.o.Now()) // what ended years ago the table would keep
	return s.explain(s.putOne(ctx, &types.Put{TableName: &s.table, Item: it}))
}

// Whose implements [request.Store].
func (s *Store) Whose(ctx context.Context, id string) (key string, err error) {
	defer store.Wrap(&err, "find request %s", id)
	p, err := read(ctx, s, pointerKey(id), decodePointer)
	if err == nil && !s.o.Now().Before(p.Kept) {
		err = approval.ErrNotFound
	}
	if err != nil {
		return "", as(err, approval.ErrNotFound, request.ErrNotFound)
	}
	return p.Key, nil
}

// Requests implements [request.Store].
func (s *Store) Requests(ctx context.Context) (list []request.Pointer, all bool, err error) {
	defer store.Wrap(&err, "list requests")
	in := &dynamodb.QueryInput{
		TableName: &s.table, KeyConditionExpression: aws.String("PK = :pk"), ExpressionAttributeValues: item{":pk": text(askPrefix)}, ConsistentRead: aws.Bool(true),
	}
	all = true
	for range requestsPages {
		p, err := again(func() (page[request.Pointer], error) {
			return queryPage(ctx, s, in, func(it item) (request.Pointer, error) {
				one, err := decodePointer(it)
				all = all && err == nil // the others wait for people
				return one, nil
			})
		})
		if err != nil {
			return nil, false, err
		}
		for _, one := range p.items {
			if s.o.Now().Before(one.Kept) {
				list = append(list, one)
			}
		}
		if len(p.next) == 0 {
			return list, all, nil
		}
		in.ExclusiveStartKey = p.next
	}
	return list, false, nil
}

func decodeAsked(it item) (request.Asked, error) {
	a, err := request.DecodeAsked(strings.TrimPrefix(textOf(it["PK"]), askPrefix), []byte(textOf(it["doc"])))
	if err != nil {
		return request.Asked{}, broken(it, err)
	}
	return a, nil
}

func decodeGranted(it item) (request.Granted, error) {
	g, err := request.DecodeGranted(strings.TrimPrefix(textOf(it["PK"]), grantPrefix), []byte(textOf(it["doc"])))
	if err != nil {
		return request.Granted{}, broken(it, err)
	}
	return g, nil
}

func decodePointer(it item) (request.Pointer, error) {
	expires, err := timeOf(it, "expires")
	if err != nil {
		return request.Pointer{}, err
	}
	kept, err := timeOf(it, "kept")
	if err != nil {
		return request.Pointer{}, err
	}
	return request.Pointer{Request: textOf(it["SK"]), Key: textOf(it["agent"]), Expires: expires, Kept: kept}, nil
}

// ttl returns the attribute by which the table removes an item, never before its time.
func ttl(t time.Time) types.AttributeValue { return number(t.Unix() + 1) }

func askedKey(key string) item { return item{"PK": text(askPrefix + key), "SK": text("ASKED")} }
func argumentsKey(key, id string) item {
	return item{"PK": text(askPrefix + key), "SK": text("ARGS#" + id)}
}
func pointerKey(id string) item  { return item{"PK": text(askPrefix), "SK": text(id)} }
func grantedKey(key string) item { return item{"PK": text(grantPrefix + key), "SK": text("GRANTED")} }
func usedKey(id string) item     { return item{"PK": text(usedPrefix + id), "SK": text("USED")} }
