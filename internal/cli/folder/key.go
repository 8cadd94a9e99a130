package folder

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// The files of keys in a gateway's folder.
const (
	KeyFile   = "admin.key" // the admin key
	SealFile  = "seal.key"  // the key that seals clients' sessions
	TokenFile = "token.key" // the keys of the hashes of agent tokens
	VaultFile = "vault.key" // the key that seals the gateway's sign-ins at servers

	// tokenKeyDefault is the setting of a gateway that keeps its token keys in TokenFile.
	tokenKeyDefault = "file:" + TokenFile
)

// PutFile writes data to a temporary file next to path, and then calls place to move the file to
// path.
func PutFile(path string, data []byte, mode fs.FileMode, place store.Place) error {
	return store.WriteFile(path, mode, place, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// readKey reads a file with a key, and reports whether other users of the machine could read it.
func readKey(path, what string) (data string, isExposed bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", false, err
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s is not a file, but must contain %s: remove it, and the next start makes a new one",
			path, what)
	// Windows has no such mode bits
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return "", true, fmt.Errorf("%s could be read by other users of this machine (mode %v)",
			path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), false, err
}

// AdminKey returns the folder's key, and creates it if there is none. If other users of the machine
// could read the key, AdminKey replaces it, because they may know it.
func AdminKey(ctx context.Context, dir string, log *slog.Logger) (secret.Text, error) {
	path := filepath.Join(dir, KeyFile)
	data, isExposed, err := readKey(path, "the admin key")
	switch {
	case isExposed:
		log.LogAttrs(ctx, slog.LevelWarn,
			"the admin key could be read by other users of this machine, and was replaced by a new one",
			slog.String("file", path))
		return newKey(path)
	case errors.Is(err, fs.ErrNotExist):
		return newKey(path)
	case err != nil:
		return secret.Text{}, err
	}
	key, ok := token.ReadAdmin(data)
	if !ok {
		return secret.Text{}, fmt.Errorf("%s holds no admin key: remove it, and the next start makes a new one", path)
	}
	return key, nil
}

// newKey creates an admin key and writes it to the file at path, in place of an existing file. No
// two programs call newKey at the same time: the caller has opened the approvals, and only one
// program can do so.
func newKey(path string) (secret.Text, error) {
	key := token.NewAdmin()
	if err := PutFile(path, []byte(key.Reveal()+"\n"), 0o600, store.Replace); err != nil {
		return secret.Text{}, fmt.Errorf("make the admin key: %w", err)
	}
	return key, nil
}

// sealer returns a sealer with the folder's key. If the settings have a key, it returns nil. If
// readOnly is set and the folder has no key, the new key exists only in this process.
func sealer(dir string, s boot.Settings, readOnly bool) (*seal.Sealer, error) {
	if s.SealKey.Reveal() != "" {
		return nil, nil //nolint:nilnil // the program makes a sealer with the key of the settings
	}
	key, err := sealKey(dir, readOnly)
	if err != nil {
		return nil, err
	}
	return seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{Current: key}, nil }), nil
}

// sealKey returns the folder's key for sealing sessions, and creates it if there is none. If
// readOnly is set, it does not write the file.
func sealKey(dir string, readOnly bool) ([]byte, error) {
	path := filepath.Join(dir, SealFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, seal.MinKey)
		_, _ = rand.Read(key) // never fails
		if readOnly {
			return key, nil
		}
		if err := makeOnce(path, hex.EncodeToString(key)+"\n", "of sessions"); err != nil {
			return nil, err
		}
	}
	data, isExposed, err := readKey(path, "the key of sessions")
	if isExposed {
		err = fmt.Errorf("%w, and anybody who knows it can forge sessions: "+
			"remove it, and the next start makes a new one; clients then begin new sessions", err)
	}
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(data)
	if err != nil || len(key) < seal.MinKey {
		return nil, fmt.Errorf("%s holds no key of sessions: remove it, and the next start makes a new one; "+
			"clients then begin new sessions", path)
	}
	return key, nil
}

// VaultKey returns the key that seals the gateway's sign-ins at servers. Its file is made at the
// first sign-in.
func VaultKey(dir string) *connection.LocalKey {
	path := filepath.Join(dir, VaultFile)
	read := func() ([]byte, error) {
		data, isExposed, err := readKey(path, "the key of the sign-ins at servers")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, connection.ErrNoKey
		case isExposed:
			return nil, fmt.Errorf("%w, and with it the tokens of servers can be read: set its mode to 0600", err)
		case err != nil:
			return nil, err
		}
		key, err := hex.DecodeString(data)
		if err != nil || len(key) != seal.MinKey {
			return nil, fmt.Errorf("%s does not hold %d hexadecimal digits", path, 2*seal.MinKey)
		}
		return key, nil
	}
	create := func() error {
		key := make([]byte, seal.MinKey)
		_, _ = rand.Read(key) // never fails
		return makeOnce(path, hex.EncodeToString(key)+"\n", "of the sign-ins at servers")
	}
	return &connection.LocalKey{Read: read, Make: create}
}

// makeOnce creates the file of a key, unless the file exists. If two programs call makeOnce at the
// same time, both use the first file: [store.Create] makes a link, which never replaces a file.
func makeOnce(path, data, what string) error {
	err := PutFile(path, []byte(data), 0o600, store.Create)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the key %s: %w", what, err)
	}
	return nil
}

// needTokenKey creates the file of the keys of agent tokens if there is none.
func needTokenKey(dir string) error {
	path := filepath.Join(dir, TokenFile)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return makeOnce(path, secret.FileText(secret.Versions{Current: NewTokenKey()}), "of agent tokens")
}

// NewTokenKey creates a random key for the hashes of agent tokens.
func NewTokenKey() secret.Version {
	return secret.Version{Text: secret.New(token.Random()), Since: time.Now()}
}
