package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// A Reader is an [object.Store] that only reads; its other methods return [errors.ErrUnsupported].
// A program that uses a Reader instead of a Store contains no encoder and no other operation of S3.
type Reader struct {
	s3     *s3.Client
	bucket string
}

// OpenReader returns a Reader on the named bucket. It makes no request.
func OpenReader(c aws.Config, bucket string) object.Store { return &Reader{newClient(c), bucket} }

// newClient returns a client of S3 for a Store.
func newClient(c aws.Config) *s3.Client {
	return s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // an emulator has no host name for each bucket
		o.DisableLogOutputChecksumValidationSkipped = true
		// The SDK waits up to 20 s before a retry, but a request has two seconds for all attempts.
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxBackoff = 250 * time.Millisecond })
	})
}

// Get implements [object.Store].
func (r *Reader) Get(ctx context.Context, key, ifNoneMatch string) (_ object.Object, err error) {
	defer store.Wrap(&err, "get object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return object.Object{}, err
	}
	in := &s3.GetObjectInput{Bucket: &r.bucket, Key: &key}
	if ifNoneMatch != "" {
		in.IfNoneMatch = &ifNoneMatch
	}
	out, err := r.s3.GetObject(ctx, in)
	if err != nil {
		return object.Object{}, r.explain(err)
	}
	defer func() { _ = out.Body.Close() }()
	data, err := read(out.Body, key, aws.ToInt64(cmp.Or(out.ContentLength, aws.Int64(-1))))
	if errors.Is(err, object.ErrDamaged) {
		return object.Object{ETag: aws.ToString(out.ETag)}, err
	}
	if err != nil {
		return object.Object{}, fmt.Errorf("read the body: %w", err)
	}
	return object.Object{Data: data, ETag: aws.ToString(out.ETag)}, nil
}

// Put implements [object.Store].
func (*Reader) Put(context.Context, string, []byte, string) (string, error) {
	return "", errors.ErrUnsupported
}

// Delete implements [object.Store].
func (*Reader) Delete(context.Context, string) error { return errors.ErrUnsupported }

// List implements [object.Store].
func (*Reader) List(context.Context, string) (map[string]string, error) {
	return nil, errors.ErrUnsupported
}

// explain converts an error of S3. It uses the HTTP status, because a 304 has no body in which the
// SDK could find an error code.
func (r *Reader) explain(err error) error {
	if fault, ok := errors.AsType[smithy.APIError](err); ok && fault.ErrorCode() == "NoSuchBucket" {
		return fmt.Errorf("bucket %q does not exist: %w", r.bucket, err)
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		return err
	}
	switch answer.HTTPStatusCode() {
	case http.StatusNotModified:
		return object.ErrNotModified
	case http.StatusNotFound:
		return object.ErrNotFound
	case http.StatusPreconditionFailed, http.StatusConflict:
		return object.ErrConflict
	default:
		return err
	}
}
