package connection

import (
	"context"
	"errors"
	"sync"
)

// ErrNoKey says that the vault has no key, so that the gateway can decrypt no stored sign-in.
var ErrNoKey = errors.New("the vault has no key")

// A LocalKey is a key on this machine, of 32 bytes. It is safe for concurrent use.
type LocalKey struct {
	// Read returns the key, or [ErrNoKey].
	Read func() ([]byte, error)
	// Make makes a key if there is none. If another process made a key first, Read returns that
	// key.
	Make func() error

	mu  sync.Mutex
	key []byte
}

// Wrap implements [Keys].
func (l *LocalKey) Wrap(_ context.Context, key []byte, about string) ([]byte, error) {
	own, err := l.read()
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(own)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, key, []byte(about)), nil //nolint:gosec // G407: the AEAD makes the nonce
}

// Unwrap implements [Keys].
func (l *LocalKey) Unwrap(_ context.Context, wrapped []byte, about string) ([]byte, error) {
	own, err := l.read()
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(own)
	if err != nil {
		return nil, err
	}
	key, err := aead.Open(nil, nil, wrapped, []byte(about))
	if err != nil {
		return nil, ErrForeign
	}
	return key, nil
}

func (l *LocalKey) read() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == nil {
		key, err := l.Read()
		if err != nil {
			return nil, err
		}
		l.key = key
	}
	return l.key, nil
}
