package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// stamp is the layout of the time in the name of a copy.
const stamp = "20060102T150405Z"

// backUp copies a file to NAME.bak-20261121T210000Z in the same folder, and returns the copy's
// path. The copy has the permissions of the file that mode also has. If the name exists, the copy's
// name gets a number.
func backUp(path string, now time.Time, mode fs.FileMode) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return freeName(backupName(path, now), "", func(name string) error {
		return createFile(name, data, info.Mode()&mode)
	})
}

// backupName returns the name of a backup of a file; a file with that name may exist.
func backupName(path string, now time.Time) string { return path + ".bak-" + now.UTC().Format(stamp) }

// freeName calls create with the name first+end, then with first-2+end and so on while the name
// exists, and returns the name.
func freeName(first, end string, create func(name string) error) (string, error) {
	name := first + end
	for n := 2; ; n++ {
		err := create(name)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		name = fmt.Sprintf("%s-%d%s", first, n, end)
	}
}

// maxFile is the maximum size of a client's file, or of a lock file.
const maxFile = max(clientfile.MaxSize, lockfile.MaxSize)

// readFile reads such a file. If the file is larger, as an endless device is, it returns enough
// bytes for the parser to refuse it.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// createFile writes a new file, whole or not at all.
func createFile(path string, data []byte, mode fs.FileMode) error {
	return folder.PutFile(path, data, mode, store.Create)
}

// replaceFile replaces a file, whole or not at all, and keeps the mode of an existing file. It
// replaces the target of a symbolic link. It writes into other kinds of file, such as /dev/stdout.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		if mode = info.Mode().Perm(); !info.Mode().IsRegular() && !info.IsDir() {
			return writeInto(path, data, 0)
		}
	}
	return folder.PutFile(path, data, mode, store.Replace)
}

// writeInto writes data to a device, a pipe or, depending on flags, the end of a file.
func writeInto(path string, data []byte, flags int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// agree asks a question, and reports whether the answer is yes. If nobody can answer, it returns an
// error with the hint instead.
func (env *environment) agree(question, instead string) (bool, error) {
	if !env.terminal {
		return false, errors.New("there is no terminal to ask on: " + instead)
	}
	fmt.Fprintf(env.stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	failed := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(env.stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			failed <- err
			return
		}
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		}
		return false, nil
	case err := <-failed:
		return false, err
	case <-env.interrupted:
		fmt.Fprintln(env.stderr)
		return false, errInterrupted
	}
}

var errInterrupted = errors.New("interrupted before the answer; nothing was done")
