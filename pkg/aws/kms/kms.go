// Package kms encrypts the data keys of the vault with a key of AWS KMS. It supports only encrypt
// and decrypt: the key never leaves KMS, and each use of it appears in CloudTrail.
package kms

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// A Key is a symmetric key of KMS. It is safe for concurrent use.
type Key struct {
	client *awsjson.Client
	id     string
}

var _ connection.Keys = (*Key)(nil)

// New returns the key with this ARN, or the key of the alias with this ARN. It makes no request.
func New(c aws.Config, id string) *Key { return &Key{awsjson.New(c, "kms"), id} }

// Wrap implements [connection.Keys].
func (k *Key) Wrap(ctx context.Context, key []byte, about string) ([]byte, error) {
	var out struct{ CiphertextBlob []byte }
	in := map[string]any{"KeyId": k.id, "Plaintext": key, "EncryptionContext": place(about)}
	if err := k.client.Call(ctx, "TrentService.Encrypt", in, &out); err != nil {
		return nil, err
	}
	return out.CiphertextBlob, nil
}

// Unwrap implements [connection.Keys]. The request names the key, because otherwise KMS would use
// any key that the text names.
func (k *Key) Unwrap(ctx context.Context, wrapped []byte, about string) ([]byte, error) {
	var out struct{ Plaintext []byte }
	in := map[string]any{
		"KeyId":             k.id,
		"CiphertextBlob":    wrapped,
		"EncryptionContext": place(about),
	}
	err := k.client.Call(ctx, "TrentService.Decrypt", in, &out)
	if awsjson.HasCode(err, "InvalidCiphertextException", "IncorrectKeyException") {
		return nil, fmt.Errorf("%w: %w", connection.ErrForeign, err)
	}
	if err != nil {
		return nil, err
	}
	return out.Plaintext, nil
}

// place returns the encryption context. The policy of the key names its beginning, and a policy
// cannot contain line breaks.
func place(about string) map[string]string {
	return map[string]string{"place": strings.ReplaceAll(about, "\n", "/")}
}
