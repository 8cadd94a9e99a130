package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// keyFile holds the admin key, in the gateway's folder.
const keyFile = "admin.key"

// adminKey returns the key that the folder keeps, and makes it if there is none. A key
// that other users of the machine could read may be known to them: another takes its place.
func adminKey(ctx context.Context, dir string, log *slog.Logger) (secret.Text, error) {
	path := filepath.Join(dir, keyFile)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newKey(path)
	case err != nil:
		return secret.Text{}, err
	case !info.Mode().IsRegular():
		return secret.Text{}, fmt.Errorf("%s is no file: the admin key is kept there; remove it, and the next start makes a new one", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows": // which has no such bits
		log.LogAttrs(ctx, slog.LevelWarn, "the admin key could be read by other users of this machine, and was replaced by a new one",
			slog.String("file", path), slog.String("mode", info.Mode().Perm().String()))
		return newKey(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return secret.Text{}, err
	}
	key, ok := token.ReadAdmin(strings.TrimSpace(string(data)))
	if !ok {
		return secret.Text{}, fmt.Errorf("%s holds no admin key: remove it, and the next start makes a new one", path)
	}
	return key, nil
}

// newKey makes the key and its file, whole or not at all, in the place of one that is there.
// Only one program at a time gets here: the approvals are open in it.
func newKey(path string) (secret.Text, error) {
	key := token.NewAdmin()
	if err := putFile(path, []byte(key.Reveal()+"\n"), 0o600, store.Replace); err != nil {
		return secret.Text{}, fmt.Errorf("make the admin key: %w", err)
	}
	return key, nil
}
