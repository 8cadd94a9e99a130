package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
)

// sealFile holds what the sessions of clients are sealed with, in the gateway's folder.
const sealFile = "seal.key"

// sealer returns what seals with the key of the settings or, if they have none, of the folder.
// readOnly: a key that the folder lacks is made up for this process.
func sealer(folder string, s boot.Settings, readOnly bool) (*seal.Sealer, error) {
	if s.SealKey.Reveal() != "" {
		return nil, nil //nolint:nilnil // the program makes it of the settings
	}
	_, err := os.Lstat(filepath.Join(folder, sealFile))
	var key []byte
	if readOnly && errors.Is(err, fs.ErrNotExist) {
		key, err = newSealKey(), nil
	} else {
		key, err = sealKey(folder)
	}
	if err != nil {
		return nil, err
	}
	return seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{Current: key}, nil }), nil
}

// sealKey returns the key that the folder keeps, and makes it if there is none. Of two programs that
// make it at once both go on with the one that was there first.
func sealKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, sealFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSealKey(path); err == nil {
			info, err = os.Lstat(path)
		}
	}
	const remedy = "remove it, and the next start makes a new one; clients then begin new sessions"
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file: the key of sessions is kept there; %s", path, remedy)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows": // which has no such bits
		return nil, fmt.Errorf("%s could be read by other users of this machine (mode %v), and who knows it can make up sessions: %s", path, info.Mode().Perm(), remedy)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(key) < seal.MinKey {
		return nil, fmt.Errorf("%s holds no key of sessions: %s", path, remedy)
	}
	return key, nil
}

func newSealKey() []byte {
	key := make([]byte, seal.MinKey)
	_, _ = rand.Read(key) // never fails
	return key
}

// makeSealKey makes the key's file, unless there is one meanwhile.
func makeSealKey(path string) error {
	// A link takes nothing away, as a rename would.
	err := createFile(path, []byte(hex.EncodeToString(newSealKey())+"\n"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the key of sessions: %w", err)
	}
	return nil
}
