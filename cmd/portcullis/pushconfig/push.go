package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// A file is one of the two that an operator writes.
type file struct {
	key     string
	data    []byte
	etag    string // of the stored one; [object.IfAbsent]: there is none
	stored  string // its version; "": there is none
	version string
}

// run is the program; open returns the bucket of a name.
func run(ctx context.Context, args []string, open func(context.Context, string) (object.Store, error), out io.Writer) error {
	f := flag.NewFlagSet("pushconfig", flag.ContinueOnError)
	dir := f.String("dir", "", "folder that holds config/mcp_config.json and, if there is one, config/policy.cedar")
	bucket := f.String("bucket", "", "bucket of the gateway: its stack's output BucketName")
	expect := f.String("expect", "", "version that the stored config must have, or the beginning of it; it is not replaced otherwise")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *bucket == "" || f.NArg() > 0 {
		return errors.New("want -dir and -bucket, and nothing else but -expect")
	}
	files, err := read(*dir)
	if err != nil {
		return err
	}
	objects, err := open(ctx, *bucket)
	if err != nil {
		return err
	}
	return push(ctx, objects, files, *expect, out)
}

// read returns the policy, if there is one, and the config. Neither may have a fault:
// the gateway would go on with what it has, and nobody would see that here.
func read(dir string) ([]file, error) {
	var files []file
	var faults []error
	for _, key := range []string{policy.Key, config.Key} {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(key)))
		if key == policy.Key && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = check(key, data)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
			continue
		}
		files = append(files, file{key: key, data: data, version: config.Version(data)})
	}
	return files, errors.Join(faults...)
}

func check(key string, data []byte) error {
	if key == policy.Key {
		_, err := policy.Parse(data)
		return err
	}
	_, err := config.Parse(data)
	return err
}

// push stores what differs, the policy first: a tool that a new config brings is never
// there without the rule about it. Each file goes over the very one that was read, so
// that of two who push at once one is told.
func push(ctx context.Context, objects object.Store, files []file, expect string, out io.Writer) error {
	for i := range files {
		f := &files[i]
		o, err := objects.Get(ctx, f.key, "")
		switch {
		case errors.Is(err, object.ErrNotFound):
			f.etag = object.IfAbsent
		case err != nil:
			return err
		default:
			f.etag, f.stored = o.ETag, config.Version(o.Data)
			if bytes.Equal(o.Data, f.data) {
				f.etag = ""
			}
		}
		if f.key == config.Key && expect != "" && !hasPrefix(f.stored, expect) {
			return fmt.Errorf("the stored config is %s, not %s: somebody else changed it", short(f.stored), expect)
		}
	}
	for _, f := range files {
		if f.key == config.Key {
			fmt.Fprint(out, variables(f.data))
		}
	}
	if files[0].key != policy.Key {
		fmt.Fprintln(out, withoutPolicy(ctx, objects))
	}
	for _, f := range files {
		if f.etag == "" {
			fmt.Fprintf(out, "%s  version %s, unchanged\n", f.key, f.version)
			continue
		}
		_, err := objects.Put(ctx, f.key, f.data, f.etag)
		if errors.Is(err, object.ErrConflict) {
			return fmt.Errorf("%s was changed by somebody else at this moment; look at it and push again", f.key)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s  version %s, was %s\n", f.key, f.version, short(f.stored))
	}
	return nil
}

// withoutPolicy says what comes of a folder without a policy. A push takes none away.
func withoutPolicy(ctx context.Context, objects object.Store) string {
	const none = "; to have none, push an empty file"
	s, err := catalog.LoadPolicy(ctx, objects, nil)
	switch {
	case err != nil:
		return fmt.Sprintf("%s  is not in the folder, and what is in use cannot be read: %v", policy.Key, err)
	case s.Value == nil:
		return policy.Key + "  is not in the folder, and the stored one cannot be used: tools stay locked until you push one that can"
	case s.Refused != nil && errors.Is(s.Refused, catalog.ErrGone):
		return fmt.Sprintf("%s  is neither in the folder nor in the bucket any more: the last good version %s stays in use%s", policy.Key, short(s.Version), none)
	case s.Version != "":
		return fmt.Sprintf("%s  is not in the folder: version %s stays in use%s", policy.Key, short(s.Version), none)
	}
	return policy.Key + "  there is none, so policy permits everything"
}

// variables warns of each ${env:…}: the functions have only the variables that the template
// gives them.
func variables(data []byte) string {
	var b strings.Builder
	cfg, err := config.Parse(data)
	if err != nil {
		return "" // it was checked before
	}
	for _, s := range cfg.Servers {
		for _, v := range s.Headers.Variables() {
			fmt.Fprintf(&b, "warning: server %q, header %s: ${env:%s} is read from the environment of the functions, which the template must set; ${secretsmanager:…} and ${ssm:…} need no deploy\n", s.Name, v.Header, v.Name)
		}
	}
	return b.String()
}

func hasPrefix(version, prefix string) bool {
	return len(prefix) >= 8 && len(version) >= len(prefix) && version[:len(prefix)] == prefix
}

func short(version string) string {
	if version == "" {
		return "absent"
	}
	return version[:12]
}
