package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// A pushCmd is portcullis push.
type pushCmd struct {
	Dir    string `required:"" placeholder:"DIR" help:"Folder that holds config/mcp_config.json and, if there is one, config/policy.cedar."`
	Bucket string `required:"" placeholder:"NAME" help:"Bucket of the gateway: its stack's output BucketName."`
	Expect string `placeholder:"VERSION" help:"Replace the stored config only if its version begins with this (8 digits or more)."`
}

// Run checks the folder, since the gateway would leave a file with a fault unused and say so only
// in its own log. Then it stores what differs.
func (c pushCmd) Run(ctx context.Context, env *environment) error {
	set := func(string) string { return "set" } // what counts is the environment of the functions
	checked, err := check(ctx, c.Dir, set, env.stdout)
	if err != nil {
		return err
	}
	objects, err := env.bucket(ctx, c.Bucket)
	if err != nil {
		return err
	}
	return push(ctx, objects, checked, c.Expect, env.stdout)
}

// A file is one of the two that an operator writes.
type file struct {
	key    string
	data   []byte
	etag   string // of the stored one; [object.IfAbsent]: there is none; "": it is the same
	stored string // its version; "": there is none
}

// push stores what differs, the policy first: a tool that a new config brings is never
// there without the rule about it. Each file replaces exactly the one that was read, so
// that of two who push at once one is refused.
func push(ctx context.Context, objects object.Store, c *checkup, expect string, out io.Writer) error {
	files := []file{{key: config.Key, data: c.config}}
	if c.policy != nil {
		files = []file{{key: policy.Key, data: c.policy}, files[0]}
	}
	for i := range files {
		f := &files[i]
		o, err := objects.Get(ctx, f.key, "")
		switch {
		case errors.Is(err, object.ErrNotFound):
			f.etag = object.IfAbsent
		case err != nil:
			return err
		default:
			f.stored = object.Version(o.Data)
			if !bytes.Equal(o.Data, f.data) {
				f.etag = o.ETag
			}
		}
		if f.key == config.Key && expect != "" && (len(expect) < 8 || !strings.HasPrefix(f.stored, expect)) {
			return fmt.Errorf("the stored config is %s, not %s: somebody else changed it", short(f.stored), expect)
		}
	}
	var variables []config.Variable
	for _, s := range c.cfg.Servers { // the functions have only the variables that the template sets
		if s.Command != nil {
			fmt.Fprintf(out, "warning: server %q is a program, which is never started on AWS: it is shown as unavailable; serve it over HTTP and write its url\n", s.Name)
			continue
		}
		variables = append(variables, s.Variables()...)
	}
	for i, target := range c.cfg.Notify {
		variables = append(variables, target.Variables(i)...)
	}
	for _, v := range variables {
		fmt.Fprintf(out, "warning: %s: ${env:%s} is read from the environment of the functions, which the template must set; ${secretsmanager:…} and ${ssm:…} need no deploy\n", v.Path, v.Name)
	}
	if c.policy == nil {
		fmt.Fprintln(out, withoutPolicy(ctx, objects))
	}
	for _, f := range files {
		version := object.Version(f.data)
		if f.etag == "" {
			fmt.Fprintf(out, "%s  version %s, unchanged\n", f.key, version)
			continue
		}
		_, err := objects.Put(ctx, f.key, f.data, f.etag)
		if errors.Is(err, object.ErrConflict) {
			return fmt.Errorf("%s was changed by somebody else at this moment; look at it and push again", f.key)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s  version %s, was %s\n", f.key, version, short(f.stored))
	}
	return nil
}

// withoutPolicy returns what comes of a folder without a policy. A push takes none away.
func withoutPolicy(ctx context.Context, objects object.Store) string {
	const none = "; to have none, push an empty file"
	s := catalog.PolicyFile.Load(ctx, objects, object.Source[policy.Policy]{}, time.Now())
	switch {
	case s.Value == nil && s.Unread != nil:
		return fmt.Sprintf("%s  is not in the folder, and what is in use cannot be read: %v", policy.Key, s.Unread)
	case s.Value == nil:
		return policy.Key + "  is not in the folder, and the stored one cannot be used: tools stay locked until you push one that can"
	case errors.Is(s.Refused, object.ErrGone):
		return fmt.Sprintf("%s  is neither in the folder nor in the bucket any more: the last good version %s stays in use%s", policy.Key, short(s.Version), none)
	case s.Version != "":
		return fmt.Sprintf("%s  is not in the folder: version %s stays in use%s", policy.Key, short(s.Version), none)
	}
	return policy.Key + "  there is none, so policy permits everything"
}

func short(version string) string {
	if version == "" {
		return "absent"
	}
	return version[:12]
}
