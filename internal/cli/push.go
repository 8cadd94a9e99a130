package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// An awsCmd is portcullis aws.
type awsCmd struct {
	Push pushCmd `cmd:"" help:"Put the config and the policy of a folder into the bucket of a gateway."`
}

// A pushCmd is portcullis aws push.
type pushCmd struct {
	Dir    string `place:"folder" default:"." placeholder:"DIR" help:"Folder that holds config/mcp_config.json and, if there is one, config/policy.cedar."`
	Bucket string `required:"" placeholder:"NAME" help:"Bucket of the gateway: its stack's output BucketName."`
	Expect string `placeholder:"VERSION" help:"Replace the stored config only if its version begins with this (8 digits or more)."`
	DryRun bool   `help:"Print what would change, and store nothing."`
	outputFlag
}

// Run checks the folder, because the gateway would ignore a file with a fault and only log it. Then
// it stores the files that differ.
func (c pushCmd) Run(ctx context.Context, env *environment) error {
	out := env.stdout
	if c.json() {
		out = io.Discard
	}
	p := &push{Dry: c.DryRun, expect: c.Expect}
	err := p.run(ctx, c, env, out)
	if c.json() && p.Check != nil {
		err = errors.Join(err, printJSON(env.stdout, p))
	}
	return err
}

// A push is one push; it is the JSON output.
type push struct {
	Check    *checkup     `json:"check"`
	Files    []pushedFile `json:"files"` // in the order of storing
	Warnings []string     `json:"warnings,omitempty"`
	Dry      bool         `json:"dry_run"`

	expect string
	files  []file
}

// A pushedFile is the result for a file.
type pushedFile struct {
	Key     string `json:"key"`
	Version string `json:"version"`
	Was     string `json:"was,omitempty"` // absent: there was none
	Stored  bool   `json:"stored"`        // false: no change, or nothing was stored
}

func (p *push) run(ctx context.Context, c pushCmd, env *environment, out io.Writer) (err error) {
	// the variables are set in the environment of the functions
	set := func(string) string { return "set" }
	p.Files = []pushedFile{}
	p.Check, err = check(ctx, c.Dir, set, out)
	if p.Check.OK = err == nil; err != nil {
		return err
	}
	objects, err := env.bucket(ctx, c.Bucket)
	if err != nil {
		return err
	}
	if err := p.read(ctx, objects); err != nil {
		return err
	}
	p.warn(out)
	rules := p.compare(ctx, objects)
	if p.Check.policy == nil {
		fmt.Fprintln(out, withoutPolicy(rules))
	}
	if c.DryRun {
		fmt.Fprintln(out, "nothing was stored: this was --dry-run")
		for _, f := range p.files {
			p.Files = append(p.Files, pushedFile{f.key, object.Version(f.data), f.stored, false})
		}
		return nil
	}
	return p.store(ctx, objects, out)
}

// A file is the config or the policy.
type file struct {
	key    string
	data   []byte
	etag   string // of the stored file; [object.IfAbsent]: there is none; "": it is equal
	stored string // its version; "": there is none
}

// read reads the stored files. The policy comes first in the list, so that the rule about a tool of
// a new config is stored before the config.
func (p *push) read(ctx context.Context, objects object.Store) error {
	p.files = []file{{key: config.Key, data: p.Check.config}}
	if p.Check.policy != nil {
		p.files = []file{{key: policy.Key, data: p.Check.policy}, p.files[0]}
	}
	for i := range p.files {
		f := &p.files[i]
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
		if f.key == config.Key && p.expect != "" && (len(p.expect) < 8 || !strings.HasPrefix(f.stored, p.expect)) {
			return fmt.Errorf("the stored config is %s, not %s: somebody else changed it", short(f.stored), p.expect)
		}
	}
	return nil
}

// warn prints what works on a laptop but not on AWS: the functions have only the template's
// variables, and start no programs.
func (p *push) warn(out io.Writer) {
	var variables []config.Variable
	for _, s := range p.Check.cfg.Servers {
		if s.Command != nil {
			p.Warnings = append(p.Warnings, fmt.Sprintf("server %q is a program, which is never started on AWS: it is shown as unavailable; serve it over HTTP and write its url", s.Name))
			continue
		}
		variables = append(variables, s.Variables()...)
	}
	for i, target := range p.Check.cfg.Notify {
		variables = append(variables, target.Variables(i)...)
	}
	for _, v := range variables {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s: ${env:%s} is read from the environment of the functions, which the template must set; ${secretsmanager:…} and ${ssm:…} need no deploy", v.Path, v.Name))
	}
	for _, w := range p.Warnings {
		fmt.Fprintln(out, "warning: "+w)
	}
}

// compare prints the difference to the gateway's files, and returns the gateway's policy. An
// unreadable policy does not stop a push, because the push may repair it.
func (p *push) compare(ctx context.Context, objects object.Store) object.Source[policy.Policy] {
	was, rules, err := stored(ctx, objects, time.Now())
	if was.files.Config == nil && errors.Is(err, object.ErrNotFound) {
		p.Check.note("no config is stored there yet, so there is nothing to compare with")
		return rules
	}
	if err != nil {
		p.Check.note("the gateway's files cannot be read, so the difference is not known: %v", err)
		return rules
	}
	snap, err := catalog.Load(ctx, objects, nil)
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		p.Check.note("the gateway's tool catalog cannot be read, so the denied tools are not "+
			"known: %v", err)
	}
	if p.Check.policy == nil { // a push removes no policy
		p.Check.rules = was.files.Policy
	}
	p.Check.differ(was, snap, "in use there")
	return rules
}

// store stores the files that differ. Each file replaces exactly the version that the push read, so
// the later of two simultaneous pushes fails.
func (p *push) store(ctx context.Context, objects object.Store, out io.Writer) error {
	for _, f := range p.files {
		version := object.Version(f.data)
		if f.etag == "" {
			fmt.Fprintf(out, "%s  version %s, unchanged\n", f.key, version)
			p.Files = append(p.Files, pushedFile{f.key, version, f.stored, false})
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
		p.Files = append(p.Files, pushedFile{f.key, version, f.stored, true})
	}
	return nil
}

// withoutPolicy returns the effect of a folder without a policy if the gateway uses s. A push
// removes no policy.
func withoutPolicy(s object.Source[policy.Policy]) string {
	const none = "; to have none, push an empty file"
	switch {
	case s.Value == nil && s.Unread != nil:
		return fmt.Sprintf("%s  is not in the folder, and the policy in use cannot be read: %v",
			policy.Key, s.Unread)
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
