package connection

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// The parts of the documents. Roles grant access by part.
const (
	partGateway = "CRED#gateway" // the connections that all callers share
	partClients = "CRED#clients" // registrations
)

// Keys encrypts data keys: with a key of KMS, or with the file vault.key of a folder.
type Keys interface {
	// Wrap encrypts a data key. Unwrap succeeds only with the same about, which is authenticated.
	Wrap(ctx context.Context, key []byte, about string) ([]byte, error)
	// Unwrap returns the data key. The error wraps [ErrForeign] if this key never wrapped it.
	Unwrap(ctx context.Context, wrapped []byte, about string) ([]byte, error)
}

// ErrForeign says that a document was sealed with another key, or for another place: the table was
// copied, the document moved, or the key replaced.
var ErrForeign = errors.New("sealed with another key, or for another place")

// A sealed document is the stored form. Everything outside Text is readable without the key.
type sealed struct {
	Version int       `json:"v"`
	Server  string    `json:"server,omitempty"`
	Key     []byte    `json:"key"`            // the wrapped data key
	Text    []byte    `json:"text"`           // nonce and AES-256-GCM
	Lease   time.Time `json:"lease,omitzero"` // end of the lease; until then only Holder refreshes
	Holder  string    `json:"holder,omitempty"`
}

const sealVersion = 1

// A vault seals documents and stores them.
type vault struct {
	docs  document.Store
	keys  Keys
	table string // its name; a document that is copied to another table cannot be decrypted
}

// about returns the data that is authenticated with a document.
func (v *vault) about(k document.Key) string {
	return "portcullis vault 1\n" + v.table + "\n" + k.Part + "\n" + k.ID
}

// seal encrypts content with a new data key. Only the document with the key k can have the result.
func (v *vault) seal(ctx context.Context, k document.Key, content any) (s sealed, err error) {
	plain, err := json.Marshal(content)
	if err != nil {
		return s, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	if s.Key, err = v.keys.Wrap(ctx, key, v.about(k)); err != nil {
		return s, fmt.Errorf("encrypt a data key: %w", err)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return s, err
	}
	s.Version = sealVersion
	s.Text = aead.Seal(nil, nil, plain, []byte(v.about(k))) //nolint:gosec // G407: the AEAD makes the nonce
	return s, nil
}

// open decrypts a document into content.
func (v *vault) open(ctx context.Context, k document.Key, s sealed, content any) error {
	if s.Version != sealVersion {
		return fmt.Errorf("version %d of a sealed document is not known", s.Version)
	}
	key, err := v.keys.Unwrap(ctx, s.Key, v.about(k))
	if err != nil {
		return fmt.Errorf("decrypt a data key: %w", err)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return err
	}
	plain, err := aead.Open(nil, nil, s.Text, []byte(v.about(k)))
	if err != nil {
		return ErrForeign
	}
	return json.Unmarshal(plain, content)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// put stores a sealed document, and returns its new revision.
func (v *vault) put(ctx context.Context, k document.Key, s sealed, rev int64) (int64, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	err = v.docs.PutDocs(ctx, document.Doc{Key: k, Data: data, Rev: rev})
	return document.NextRev(rev), err
}

// keyOf returns the key of a server's connection. Two names of one URL have two connections,
// because they may be two accounts. Another URL has another connection, so that a token never goes
// to another server.
func keyOf(server, url string) document.Key {
	sum := sha256.Sum256([]byte(server + "\x00" + url))
	return document.Key{Part: partGateway, ID: hex.EncodeToString(sum[:16])}
}

// clientKey returns the key of the registration at an issuer with a callback.
func clientKey(issuer, redirect string) document.Key {
	sum := sha256.Sum256([]byte(issuer + "\x00" + redirect))
	return document.Key{Part: partClients, ID: hex.EncodeToString(sum[:16])}
}
