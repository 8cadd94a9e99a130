// Package s3 keeps objects in an S3 bucket.
//
// A missing bucket is an error that names it, never [object.ErrNotFound]: if a gateway treated it
// as a missing policy, the gateway would permit what the policy denies. If a role lacks
// s3:ListBucket, S3 answers 403 instead of 404 for a missing key, so a role needs that permission.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// writeID is the user metadata (x-amz-meta-…) that distinguishes writes.
const writeID = "write-id"

// A Store is an [object.Store] in a bucket. An object has the same key in the Store and in the
// bucket.
type Store struct{ Reader }

// New returns a Store on the named bucket. It makes no request. The client retries failed requests.
func New(c *s3.Client, bucket string) *Store { return &Store{Reader{c, bucket}} }

// Open returns a Store on the named bucket, for the functions that write it.
func Open(c aws.Config, bucket string) object.Store { return New(newClient(c), bucket) }

// Put implements [object.Store]. If the answer to a conditional write is lost, the client sends it
// again. S3 refuses the second attempt, because the first one has changed the object. So each write
// carries an id, and after a refusal Put reads the id of the stored object.
func (s *Store) Put(ctx context.Context, key string, data []byte, ifMatch string) (etag string, err error) {
	defer store.Wrap(&err, "put object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return "", err
	}
	if isCompressed(key) {
		if data, err = compress(data); err != nil {
			return "", err
		}
	}
	id := rand.Text()
	in := &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(data),
		Metadata: map[string]string{writeID: id},
	}
	switch ifMatch {
	case "":
	case object.IfAbsent:
		in.IfNoneMatch = aws.String("*")
	default:
		in.IfMatch = &ifMatch
	}
	out, err := s.s3.PutObject(ctx, in)
	if err == nil {
		return aws.ToString(out.ETag), nil
	}
	err = s.explain(err)
	if ifMatch != "" && errors.Is(err, object.ErrNotFound) { // If-Match on a key without an object
		err = object.ErrConflict
	}
	if errors.Is(err, object.ErrConflict) {
		if etag, ok := s.wrote(ctx, key, id); ok {
			return etag, nil
		}
	}
	return "", err
}

// Delete implements [object.Store]. In a bucket with versioning, the object becomes an old version,
// which the bucket's rules remove.
func (s *Store) Delete(ctx context.Context, key string) (err error) {
	defer store.Wrap(&err, "delete object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return err
	}
	_, err = s.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	if err = s.explain(err); errors.Is(err, object.ErrNotFound) {
		return nil
	}
	return err
}

// List implements [object.Store].
func (s *Store) List(ctx context.Context, folder string) (etags map[string]string, err error) {
	defer store.Wrap(&err, "list objects in %q", folder)
	if err := cmp.Or(ctx.Err(), object.CheckKey(folder)); err != nil {
		return nil, err
	}
	etags = map[string]string{}
	pages := s3.NewListObjectsV2Paginator(s.s3, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(folder + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain(err)
		}
		for _, o := range page.Contents {
			etags[aws.ToString(o.Key)] = aws.ToString(o.ETag)
		}
	}
	return etags, nil
}

// wrote reports whether the write with the given id stored the object at key. If it cannot read the
// object, the write counts as refused, and the caller reads again.
func (s *Store) wrote(ctx context.Context, key, id string) (etag string, ok bool) {
	out, err := s.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return "", false
	}
	defer func() { _ = out.Body.Close() }()
	return aws.ToString(out.ETag), out.Metadata[writeID] == id
}
