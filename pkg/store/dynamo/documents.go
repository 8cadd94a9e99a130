package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ document.Store = (*Store)(nil)

// maxReads is how many documents Docs reads at the same time.
const maxReads = 16

// Docs implements [document.Store]. It makes one request for each document, which costs the same as
// one request for all: a role may use GetItem for the documents that it reads, but few roles may
// read several items with one request.
func (s *Store) Docs(ctx context.Context, keys ...document.Key) ([]document.Doc, error) {
	docs := make([]document.Doc, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxReads)
	for i, k := range keys {
		g.Go(func() (err error) {
			docs[i], err = s.readDoc(ctx, k)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return docs, nil
}

func (s *Store) readDoc(ctx context.Context, k document.Key) (d document.Doc, err error) {
	defer store.Wrap(&err, "get document %q %q", k.Part, k.ID)
	d, err = read(ctx, s, itemKey(k), func(it item) (document.Doc, error) { return s.decodeDoc(k, it) })
	if errors.Is(err, approval.ErrNotFound) {
		return document.Doc{Key: k}, nil
	}
	return d, err
}

// GetWith returns the results of Get and Docs with one request. Without a record the error is
// [approval.ErrNotFound], and GetWith still returns the documents.
func (s *Store) GetWith(
	ctx context.Context, id tool.ID, keys ...document.Key,
) (r approval.Record, docs []document.Doc, err error) {
	defer store.Wrap(&err, "get approval %q and documents", id)
	own := keyOf(recordKey(id))
	docs, err = retryGarbled(func() ([]document.Doc, error) {
		found, err := s.batch(ctx, append([]document.Key{own}, keys...))
		if r = (approval.Record{}); found[own] != nil {
			r, err = decode(found[own])
		}
		if err != nil {
			return nil, err
		}
		docs := make([]document.Doc, len(keys))
		for i, k := range keys {
			if docs[i].Key = k; found[k] != nil && err == nil {
				docs[i], err = s.decodeDoc(k, found[k])
			}
		}
		return docs, err
	})
	if err == nil && r.Server == "" {
		err = approval.ErrNotFound
	}
	return r, docs, err
}

// decodeDoc returns the document of an item. The Doc of an absent item has only its Key.
func (s *Store) decodeDoc(k document.Key, it item) (d document.Doc, err error) {
	if keyOf(it) != k {
		return d, broken(it, errors.New("the item has another key"))
	}
	d, err = formOf(k).decode(it, s.o.Now())
	d.Key = k
	return d, err
}

// PutDocs implements [document.Store]. One document costs one write. Several documents cost a
// transaction, at twice the price. If the answer to a delete is lost, and the client sends the
// delete again, the error is a conflict although the delete took effect.
func (s *Store) PutDocs(ctx context.Context, docs ...document.Doc) (err error) {
	defer store.Wrap(&err, "put documents")
	if err := cmp.Or(ctx.Err(), document.CheckPut(docs)); err != nil || len(docs) == 0 {
		return err
	}
	writeID := rand.Text()
	var writes []types.TransactWriteItem
	for _, d := range docs {
		writes = append(writes, s.docWrite(d, writeID))
	}
	if len(writes) == 1 {
		err = s.writeOne(ctx, writes[0])
	} else {
		in := &dynamodb.TransactWriteItemsInput{TransactItems: writes}
		_, err = s.db.TransactWriteItems(ctx, in, s.docOptions)
	}
	key, stored, refused := refusedDoc(err, docs)
	switch {
	case refused && textOf(stored["write_id"]) == writeID, isGarbled(err) && s.wrote(ctx, docs, writeID):
		return nil // an earlier attempt succeeded, and its answer was lost
	case refused:
		return &document.ConflictError{Key: key}
	}
	return s.nameTable(err)
}

// docWrite returns the write of one document.
func (s *Store) docWrite(d document.Doc, writeID string) types.TransactWriteItem {
	f, key := formOf(d.Key), itemKey(d.Key)
	c := f.require(d.Rev, s.o.Now())
	sameMark := f.fixed && d.Rev > 0 && d.Mark != ""
	if sameMark {
		c.expression += " AND #mark = :mark"
		c.names["#mark"], c.values[":mark"] = f.mark, text(d.Mark)
	}
	if d.Data == nil {
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &s.table, Key: key, ConditionExpression: &c.expression,
			ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}}
	}
	it := f.encode(d, writeID)
	keepsMark := f.mark != "" && d.Mark == "" && d.Rev > 0
	if f.update || keepsMark || sameMark {
		up := update(it, f.unset(it, d.Rev > 0))
		return types.TransactWriteItem{Update: s.docUpdate(d.Key, up, c)}
	}
	maps.Copy(it, key)
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &s.table, Item: it, ConditionExpression: &c.expression,
		ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// docUpdate adds key and condition to an update of a document.
func (s *Store) docUpdate(key document.Key, up types.Update, c condition) *types.Update {
	maps.Copy(up.ExpressionAttributeNames, c.names)
	maps.Copy(up.ExpressionAttributeValues, c.values)
	up.TableName, up.Key, up.ConditionExpression = &s.table, itemKey(key), &c.expression
	up.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	return &up
}

// writeOne makes one write, which costs half as much as in a transaction.
func (s *Store) writeOne(ctx context.Context, w types.TransactWriteItem) (err error) {
	switch {
	case w.Put != nil:
		_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: w.Put.TableName, Item: w.Put.Item,
			ConditionExpression:       w.Put.ConditionExpression,
			ExpressionAttributeNames:  w.Put.ExpressionAttributeNames,
			ExpressionAttributeValues: w.Put.ExpressionAttributeValues,

			ReturnValuesOnConditionCheckFailure: w.Put.ReturnValuesOnConditionCheckFailure,
		}, s.docOptions)
	case w.Update != nil:
		_, err = s.db.UpdateItem(ctx, updateInput(*w.Update), s.docOptions)
	default:
		_, err = s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: w.Delete.TableName, Key: w.Delete.Key,
			ConditionExpression:       w.Delete.ConditionExpression,
			ExpressionAttributeNames:  w.Delete.ExpressionAttributeNames,
			ExpressionAttributeValues: w.Delete.ExpressionAttributeValues,

			ReturnValuesOnConditionCheckFailure: w.Delete.ReturnValuesOnConditionCheckFailure,
		}, s.docOptions)
	}
	return err
}

// refusedDoc returns the document whose condition failed, and the stored item. The refusal contains
// the item, so that a role that may write a document needs no right to read it.
func refusedDoc(err error, docs []document.Doc) (key document.Key, stored item, refused bool) {
	if one, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return docs[0].Key, one.Item, true
	}
	if all, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for i, r := range all.CancellationReasons[:min(len(docs), len(all.CancellationReasons))] {
			if aws.ToString(r.Code) == conditionFailed {
				return docs[i].Key, r.Item, true
			}
		}
	}
	return document.Key{}, nil, false
}

// wrote reports whether a write took effect although its answer cannot be decoded. It reads the
// first document that the write did not delete. If it cannot read that document, the write counts
// as lost.
func (s *Store) wrote(ctx context.Context, docs []document.Doc, writeID string) bool {
	n := slices.IndexFunc(docs, func(d document.Doc) bool { return d.Data != nil })
	if n < 0 {
		return false
	}
	stored, err := read(ctx, s, itemKey(docs[n].Key), writeIDOf)
	return err == nil && stored == writeID
}

// ListDocs implements [document.Store]. It skips a document that it cannot read, and then returns
// false for all.
func (s *Store) ListDocs(
	ctx context.Context, part string,
) (docs []document.Doc, all bool, err error) {
	defer store.Wrap(&err, "list documents of %q", part)
	in := &dynamodb.QueryInput{
		TableName: &s.table, KeyConditionExpression: aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": text(part)}, ConsistentRead: aws.Bool(true),
	}
	all = true
	readTwice := false // an item may be damaged only in this answer
	pages := formOf(document.Key{Part: part}).pages
	for n := 0; pages == 0 || n < pages; n++ {
		p, err := retryGarbled(func() (page[document.Doc], error) {
			return queryPage(ctx, s, in, func(it item) (document.Doc, error) {
				d, err := s.decodeDoc(document.Key{Part: part, ID: textOf(it["SK"])}, it)
				if err != nil && !readTwice {
					readTwice = true
					return d, err
				}
				all = all && err == nil
				return d, nil
			})
		})
		if err != nil {
			return nil, false, err
		}
		for _, d := range p.items {
			if d.Rev > 0 {
				docs = append(docs, d)
			}
		}
		if len(p.next) == 0 {
			return docs, all, nil
		}
		in.ExclusiveStartKey = p.next
	}
	return docs, false, nil
}

// TouchDoc implements [document.Store]. It writes one attribute, so that a role can have permission
// for this write alone.
func (s *Store) TouchDoc(ctx context.Context, key document.Key, mark string) (err error) {
	defer store.Wrap(&err, "touch document %q %q", key.Part, key.ID)
	if err := ctx.Err(); err != nil {
		return err
	}
	f := formOf(key)
	c := f.present(s.o.Now())
	if f.update {
		c = condition{expression: "attribute_exists(PK)"} // the role may name no other attribute
	}
	up := s.docUpdate(key, update(item{f.markName(): text(mark)}, nil), c)
	up.ReturnValuesOnConditionCheckFailure = "" // not read, and roles may name one attribute
	_, err = s.db.UpdateItem(ctx, updateInput(*up), s.docOptions)
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		return document.ErrNotFound
	}
	return s.nameTable(err)
}
