package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// errBroken says that an item does not have the form that this program writes.
var errBroken = errors.New("item cannot be read")

// broken returns an error that names an unreadable item.
func broken(it item, err error) error {
	return fmt.Errorf("%w: %q %q: %w", errBroken, textOf(it["PK"]), textOf(it["SK"]), err)
}

// isGarbled reports whether an answer could not be decoded: it was damaged or cut off. The SDK does
// not repeat such a call.
func isGarbled(err error) bool {
	_, ok := errors.AsType[*smithy.DeserializationError](err)
	return ok || errors.Is(err, errBroken)
}

// retryGarbled calls its argument, which reads from the table. If the answer is garbled, it calls
// the argument a second time.
func retryGarbled[T any](once func() (T, error)) (T, error) {
	v, err := once()
	if isGarbled(err) {
		v, err = once()
	}
	return v, err
}

// read reads an item with strong consistency, or returns [approval.ErrNotFound].
func read[T any](ctx context.Context, s *Store, key item, decode func(item) (T, error)) (T, error) {
	return readItem(ctx, s, key, true, decode)
}

func readItem[T any](ctx context.Context, s *Store, key item, strongly bool, decode func(item) (T, error)) (T, error) {
	return retryGarbled(func() (v T, err error) {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: key, ConsistentRead: &strongly}, s.options)
		if err != nil {
			return v, s.explain(err)
		}
		if out.Item == nil {
			return v, approval.ErrNotFound
		}
		return decode(out.Item)
	})
}

// batch reads at most a hundred items with strong consistency, and returns the items that exist. A
// busy table may leave out items of its answer. batch requests these items again, because they may
// exist.
func (s *Store) batch(ctx context.Context, keys []document.Key) (map[document.Key]item, error) {
	found := make(map[document.Key]item, len(keys))
	all := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, k := range keys {
		all.Keys = append(all.Keys, itemKey(k))
	}
	ask := map[string]types.KeysAndAttributes{s.table: all}
	for attempt := range attempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in := &dynamodb.BatchGetItemInput{RequestItems: ask}
		out, err := s.db.BatchGetItem(ctx, in, s.options)
		if err != nil {
			return nil, s.explain(err)
		}
		for _, it := range out.Responses[s.table] {
			if found[keyOf(it)] = it; !slices.Contains(keys, keyOf(it)) {
				return nil, broken(it, errors.New("its key was not requested"))
			}
		}
		if ask = out.UnprocessedKeys; len(ask) == 0 {
			return found, nil
		}
		wait, _ := backoff(attempt, nil) // backoff never fails
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
	return nil, errors.New("the table is too busy to return all requested items")
}

// A page is one answer of a query.
type page[T any] struct {
	items []T
	next  item // where the next page begins; empty: this page is the last
}

// query reads all pages of a query. If in.Limit is set, it returns at most so many items.
func query[T any](ctx context.Context, s *Store, in *dynamodb.QueryInput, decode func(item) (T, error)) ([]T, error) {
	in.TableName = &s.table
	most := int(aws.ToInt32(in.Limit))
	var all []T
	for {
		p, err := retryGarbled(func() (page[T], error) { return queryPage(ctx, s, in, decode) })
		if err != nil {
			return nil, err
		}
		all = append(all, p.items...)
		if most > 0 && len(all) >= most {
			return all[:most], nil
		}
		if len(p.next) == 0 {
			return all, nil
		}
		in.ExclusiveStartKey = p.next
	}
}

func queryPage[T any](ctx context.Context, s *Store, in *dynamodb.QueryInput, decode func(item) (T, error)) (p page[T], err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	out, err := s.db.Query(ctx, in, s.options)
	if err != nil {
		return p, s.explain(err)
	}
	for _, it := range out.Items {
		v, err := decode(it)
		if err != nil {
			return p, err
		}
		p.items = append(p.items, v)
	}
	p.next = out.LastEvaluatedKey
	return p, nil
}
