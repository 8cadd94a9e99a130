package dir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// countEnv names a folder. If it is set, the test binary counts in the folder instead of testing.
const countEnv = "DIR_TEST_COUNT"

// rounds is how many times each process adds 1.
const rounds = 40

func TestMain(m *testing.M) {
	if root := os.Getenv(countEnv); root != "" {
		if err := count(dir.New(root)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// count adds 1 to the number in "counter", rounds times, with conditional writes.
func count(s *dir.Store) error {
	for n := 0; n < rounds; {
		o, err := s.Get(context.Background(), "counter", "")
		ifMatch := o.ETag
		if errors.Is(err, object.ErrNotFound) {
			o.Data, ifMatch, err = []byte("0"), object.IfAbsent, nil
		}
		if err != nil {
			return err
		}
		i, err := strconv.Atoi(string(o.Data))
		if err != nil {
			return err
		}
		_, err = s.Put(context.Background(), "counter", []byte(strconv.Itoa(i+1)), ifMatch)
		switch {
		case err == nil:
			n++
		case !errors.Is(err, object.ErrConflict):
			return err
		}
	}
	return nil
}

func TestStore(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) object.Store {
		s := dir.New(filepath.Join(t.TempDir(), "not", "there", "yet"))
		t.Cleanup(func() {
			if n := s.Failures(); n != 0 {
				t.Errorf("a store that works counts %d failures", n)
			}
		})
		return s
	})
}

func TestPutOfSeveralProcesses(t *testing.T) {
	root := t.TempDir()
	var counters []*exec.Cmd
	for range 3 {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), countEnv+"="+root)
		c.Stderr = os.Stderr
		require.OK(t, c.Start())
		counters = append(counters, c)
	}
	for _, c := range counters {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	o, err := dir.New(root).Get(t.Context(), "counter", "")
	require.OK(t, err)
	if want := strconv.Itoa(3 * rounds); string(o.Data) != want {
		t.Errorf("three processes counted to %s, want %s", o.Data, want)
	}
}

func TestETag(t *testing.T) {
	root := t.TempDir()
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	s := dir.New(root)
	if etag, err := s.Put(t.Context(), "a", []byte("hello"), ""); err != nil || etag != sum {
		t.Errorf("Put = %q, %v, want %q", etag, err, sum)
	}
	require.OK(t, os.WriteFile(filepath.Join(root, "a"), []byte("by hand"), 0o600))
	if o, err := s.Get(t.Context(), "a", sum); err != nil || string(o.Data) != "by hand" {
		t.Errorf("Get after an edit by hand = %q, %v", o.Data, err)
	}
	if _, err := s.Put(t.Context(), "a", []byte("x"), sum); !errors.Is(err, object.ErrConflict) {
		t.Errorf("Put over an edit by hand = %v, want ErrConflict", err)
	}
}

func TestLinksOutside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	require.OK(t, os.WriteFile(outside, []byte("secret"), 0o600))
	root := t.TempDir()
	for link, target := range map[string]string{"file": outside, "folder": filepath.Dir(outside), "up": ".."} {
		require.OK(t, os.Symlink(target, filepath.Join(root, link)))
	}
	s := dir.New(root)
	for _, key := range []string{"file", "folder/secret", "up/secret"} {
		if o, err := s.Get(t.Context(), key, ""); err == nil || errors.Is(err, object.ErrNotFound) {
			t.Errorf("Get(%q) = %q, %v; want an error that is not ErrNotFound", key, o.Data, err)
		}
	}
	for _, key := range []string{"folder/secret", "folder/new", "up/new"} {
		if _, err := s.Put(t.Context(), key, []byte("x"), ""); err == nil {
			t.Errorf("Put(%q) wrote outside the folder", key)
		}
	}
	if _, err := s.Put(t.Context(), "file", []byte("mine"), ""); err != nil { // replaces the link
		t.Errorf("Put over a link: %v", err)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "secret" {
		t.Errorf("the file outside has %q, %v", data, err)
	}
	if o, err := s.Get(t.Context(), "file", ""); err != nil || string(o.Data) != "mine" {
		t.Errorf("Get after Put over a link = %q, %v", o.Data, err)
	}
}

func TestLinksInside(t *testing.T) {
	root := t.TempDir() // the layout of mounted config maps
	require.OK(t, os.MkdirAll(filepath.Join(root, "..2026"), 0o700))
	err := errors.Join(
		os.WriteFile(filepath.Join(root, "..2026", "mcp_config.json"), []byte("{}"), 0o600),
		os.Symlink("..2026", filepath.Join(root, "config")),
	)
	require.OK(t, err)
	if o, err := dir.New(root).Get(t.Context(), "config/mcp_config.json", ""); err != nil || string(o.Data) != "{}" {
		t.Errorf("Get = %q, %v", o.Data, err)
	}
}

func TestPutThatFails(t *testing.T) {
	root := t.TempDir()
	s := dir.New(root)
	if _, err := s.Put(t.Context(), "config/a", []byte("old"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "config", []byte("x"), ""); err == nil {
		t.Error("Put replaced a folder by an object")
	}
	if _, err := s.Put(t.Context(), "config/a/b", []byte("x"), ""); err == nil {
		t.Error("Put replaced an object by a folder")
	}
	if _, err := s.Put(t.Context(), "config/a", []byte("x"), "old etag"); !errors.Is(err, object.ErrConflict) {
		t.Errorf("Put = %v, want ErrConflict", err)
	}
	var left []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/"))
		}
		return err
	})
	require.OK(t, err)
	if got := strings.Join(left, " "); got != ".lock config/a" {
		t.Errorf("files left: %s", got)
	}
	if o, err := s.Get(t.Context(), "config/a", ""); err != nil || string(o.Data) != "old" {
		t.Errorf("Get = %q, %v", o.Data, err)
	}
}

func TestUnreadableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.OK(t, os.WriteFile(file, nil, 0o600))
	s := dir.New(file)
	if _, err := s.Get(t.Context(), "a", ""); err == nil || errors.Is(err, object.ErrNotFound) {
		t.Errorf("Get in a file = %v, want an error that is not ErrNotFound", err)
	}
	if _, err := s.Put(t.Context(), "a", nil, ""); err == nil {
		t.Error("Put into a file returns no error")
	}
	if n := s.Failures(); n != 2 {
		t.Errorf("%d failures are counted, want 2", n)
	}
}
