package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/difference"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// errCheck is the error of a check that has printed faults.
var errCheck = errors.New("the folder cannot be deployed as it is")

// maxTools is the maximum number of a rule's tools that are printed.
const maxTools = 50

// noDenyRule is the warning about a server whose tools every agent may call.
const noDenyRule = "no rule denies any of its tools"

// A checkCmd is portcullis check.
type checkCmd struct {
	positionalFolder
	outputFlag
}

// Run prints the faults of the folder.
func (c checkCmd) Run(ctx context.Context, env *environment) error {
	out := env.stdout
	if c.json() {
		out = io.Discard
	}
	checked, err := check(ctx, c.Dir, env.getenv, out)
	if checked.OK = err == nil; checked.OK {
		checked.compare(ctx)
	}
	if c.json() {
		err = errors.Join(err, printJSON(env.stdout, checked))
	}
	return err
}

// A checkup is one check of a folder. Its exported fields are the JSON output.
type checkup struct {
	OK       bool         `json:"ok"` // whether the gateway would accept both files
	Config   fileState    `json:"config"`
	Policy   fileState    `json:"policy"`
	Faults   []atFile     `json:"faults"`
	Warnings []atFile     `json:"warnings"`
	Notes    []string     `json:"notes,omitempty"` // other messages
	Rules    []ruleEffect `json:"rules,omitempty"`

	// between the files in use and these files; absent: no files are in use, or they are unreadable
	Difference *difference.Difference `json:"difference,omitempty"`
	Used       *activeFiles           `json:"used,omitempty"`

	out        io.Writer
	objects    object.Store
	snap       *catalog.Snapshot // nil: no catalog
	configPath string
	policyPath string
	places     *config.Locator // of the config
	cfg        *config.Config
	rules      *policy.Policy

	config, policy []byte // the two files; policy is nil if there is none
}

// A fileState is the state of one of the two files.
type fileState struct {
	File    string `json:"file"`
	Version string `json:"version,omitempty"` // absent: no file, or it has a fault
	Servers int    `json:"servers,omitempty"`
}

// An atFile is a fault or a warning, with its file.
type atFile struct {
	File string `json:"file"`
	config.Fault
}

// A ruleEffect is a rule and its effect in the catalog.
type ruleEffect struct {
	Rule   string   `json:"rule"`
	Allow  bool     `json:"allow,omitempty"`  // it allows the tools that it matches
	Always []string `json:"always,omitempty"` // for every agent
	Some   []string `json:"some,omitempty"`   // for some agents
}

// check reads config and policy of a folder as a sync would. It prints every fault with its file,
// line and path, and the effect of the rules in the folder's catalog. It returns an error if there
// is a fault.
func check(ctx context.Context, folder string, getenv func(string) string, out io.Writer) (*checkup, error) {
	c := &checkup{out: out, objects: dir.New(folder), configPath: filepath.Join(folder, config.Key), policyPath: filepath.Join(folder, policy.Key), Faults: []atFile{}, Warnings: []atFile{}}
	c.Config.File, c.Policy.File = c.configPath, c.policyPath
	okConfig := c.readConfig(getenv)
	okPolicy := c.readPolicy(ctx)
	if !okConfig || !okPolicy {
		return c, errCheck
	}
	var err error
	c.snap, err = catalog.Load(ctx, c.objects, nil)
	if errors.Is(err, object.ErrNotFound) {
		c.note("no catalog in %s yet: the matches of the rules are known after the first sync",
			folder)
		return c, nil
	}
	if err != nil {
		return c, err
	}
	c.match(c.snap)
	return c, nil
}

func (c *checkup) printf(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// note prints a line that is neither a fault nor a warning.
func (c *checkup) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
	c.printf(format, args...)
}

// fault prints a fault that concerns a whole file.
func (c *checkup) fault(path, format string, args ...any) {
	c.Faults = append(c.Faults, atFile{path, config.Fault{Message: fmt.Sprintf(format, args...)}})
	c.printf("%s: "+format, append([]any{path}, args...)...)
}

// faults prints each fault of a file, or any other error about it.
func (c *checkup) faults(path string, err error) {
	c.Faults = append(c.Faults, atFiles(path, err)...)
	c.lines("", path, err)
}

func (c *checkup) warn(path string, warnings config.Faults) {
	if len(warnings) > 0 {
		c.Warnings = append(c.Warnings, atFiles(path, warnings)...)
		c.lines("warning: ", path, warnings)
	}
}

func (c *checkup) lines(prefix, path string, err error) {
	for line := range strings.Lines(err.Error()) {
		c.printf("%s%s:%s", prefix, path, strings.TrimRight(line, "\n"))
	}
}

func atFiles(path string, err error) (out []atFile) {
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		return []atFile{{path, config.Fault{Message: err.Error()}}}
	}
	for _, f := range faults {
		out = append(out, atFile{path, f})
	}
	return out
}

func (c *checkup) readConfig(getenv func(string) string) bool {
	data, err := os.ReadFile(c.configPath)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) {
			hint = "; portcullis init writes one to begin with"
		}
		c.fault(c.configPath, "it cannot be read: %v%s", err, hint)
		return false
	}
	if c.cfg, err = config.Parse(data); err != nil {
		c.faults(c.configPath, err)
		c.warn(c.configPath, config.Warnings(data))
		return false
	}
	c.config, c.places = data, config.NewLocator(data)
	_, unset := c.unset(getenv)
	c.warn(c.configPath, slices.Concat(c.cfg.Warnings, unset))
	c.Config.Version, c.Config.Servers = object.Version(data), len(c.cfg.Servers)
	c.printf("%s: %s, version %.12s", c.configPath, text.Count(len(c.cfg.Servers), "server"), object.Version(data))
	for _, s := range c.cfg.Stop.List {
		c.note("%s: %v is %s", c.configPath, s.Target, s.Note())
	}
	return true
}

// unset returns the names of variables that are not set in the environment of the check, and warns
// about each. They are not faults, because the functions on AWS have other variables.
func (c *checkup) unset(getenv func(string) string) (names []string, warnings config.Faults) {
	for _, s := range c.cfg.Servers {
		for _, v := range s.Variables() {
			if getenv(v.Name) == "" {
				names = append(names, v.Name)
				warnings = append(warnings, config.Fault{Path: v.Path, Message: fmt.Sprintf(
					"the variable %s is not set here; without it in the gateway's environment the server %q does not load", v.Name, s.Name)})
			}
		}
	}
	for i, target := range c.cfg.Notify {
		for _, v := range target.Variables(i) {
			if getenv(v.Name) == "" {
				names = append(names, v.Name)
				warnings = append(warnings, config.Fault{Path: v.Path,
					Message: fmt.Sprintf("the variable %s is not set here; without it in the "+
						"gateway's environment no notice is sent there", v.Name)})
			}
		}
	}
	return names, c.places.Locate(warnings)
}

func (c *checkup) readPolicy(ctx context.Context) bool {
	data, err := os.ReadFile(c.policyPath)
	if errors.Is(err, os.ErrNotExist) {
		return c.noPolicy(ctx)
	}
	if err != nil {
		c.fault(c.policyPath, "it cannot be read: %v", err)
		return false
	}
	if c.rules, err = policy.Parse(data); err != nil {
		c.faults(c.policyPath, err)
		return false
	}
	c.policy = data
	c.warn(c.policyPath, c.rules.Warnings())
	c.Policy.Version = object.Version(data)
	c.printf("%s: version %.12s", c.policyPath, object.Version(data))
	return true
}

// noPolicy prints which policy applies in a folder without one: the policy that a gateway of this
// folder used before, or none.
func (c *checkup) noPolicy(ctx context.Context) bool {
	s := catalog.PolicyFile.Load(ctx, c.objects, object.Source[policy.Policy]{}, time.Now())
	switch {
	case s.Value == nil && s.Unread != nil:
		c.fault(c.policyPath, "it is missing, and the last good one cannot be read: %v", s.Unread)
		return false
	case s.Value == nil:
		c.fault(c.policyPath, "it is gone, and the last good one is not understood: every tool is locked until there is a new file")
		return false
	case s.Stale():
		message := fmt.Sprintf("it is gone; the last good one, version %.12s, stays in use. Restore it, or write an empty file to have none", s.Version)
		c.Warnings = append(c.Warnings, atFile{c.policyPath, config.Fault{Message: message}})
		c.printf("warning: %s: %s", c.policyPath, message)
	default:
		c.note("%s: there is none, so policy permits everything", c.policyPath)
	}
	c.rules = s.Value
	return true
}

// match prints what lists, toolsets and rules match in the catalog.
func (c *checkup) match(snap *catalog.Snapshot) {
	tools, universe := state.Inventory(c.cfg, snap)
	bound := toolset.Compile(c.cfg, universe)
	for _, s := range c.cfg.Servers {
		if have, ok := snap.Server(s.Name); !ok || have.Tools == 0 {
			c.note("server %q: the catalog has no tool of it, so the matches of the rules are "+
				"not known", s.Name)
		}
	}
	warned := map[string]bool{}
	for _, w := range bound.Warnings() {
		warned[w.Path] = true
	}
	c.warn(c.configPath, c.places.Locate(bound.Warnings()))
	matches := c.rules.Matches(c.cfg, tools)
	for _, m := range matches {
		c.Rules = append(c.Rules, ruleEffect{m.Rule, m.Allow, ids(m.Always), ids(m.Some)})
		if len(m.Always)+len(m.Some) > 0 {
			c.printf("%s %s", c.where(m.Rule), effect(m))
		} else if !warned[m.Rule] {
			c.suspect(m.Rule, "matches no %s of the catalog", listed(m.Rule))
		}
	}
	for _, name := range policy.Exposed(c.cfg, tools, matches) {
		c.suspect(config.JoinPath("mcpServers", name), noDenyRule)
	}
}

// suspect prints a warning about a rule, or another place in the files.
func (c *checkup) suspect(rule, format string, args ...any) {
	w := c.place(rule)
	w.Message = fmt.Sprintf(format, args...)
	c.Warnings = append(c.Warnings, w)
	c.printf("warning: %s %s", c.where(rule), w.Message)
}

func ids(all []tool.ID) (out []string) {
	for _, id := range all {
		out = append(out, id.String())
	}
	return out
}

// place returns the place of a rule.
func (c *checkup) place(rule string) atFile {
	at, ok := strings.CutPrefix(rule, "policy.cedar:")
	if !ok {
		return atFile{c.configPath, c.places.Locate(config.Faults{{Path: rule}})[0]}
	}
	line, id, _ := strings.Cut(at, " ")
	n, _ := strconv.Atoi(line) // line is a number
	return atFile{c.policyPath, config.Fault{Path: id, Line: n}}
}

// where returns file, line and name of a rule.
func (c *checkup) where(rule string) string {
	at := c.place(rule)
	if at.File == c.policyPath {
		return fmt.Sprintf("%s:%d: %s:", at.File, at.Line, cmp.Or(at.Path, "the rule"))
	}
	return at.File + ":" + strings.TrimSpace(at.String())
}

// listed returns the kind of the items that the rule at a path can match.
func listed(rule string) string {
	switch {
	case strings.Contains(rule, ".disabled_prompts["):
		return "prompt"
	case strings.Contains(rule, ".disabled_resources["):
		return "resource"
	}
	return "tool"
}

// effect returns the effect of a rule in the catalog.
func effect(m policy.Match) string {
	verb := "denies"
	if m.Allow {
		verb = "lets through"
	}
	names := make([]string, 0, len(m.Always)+len(m.Some))
	kinds := map[tool.Kind]int{}
	for _, id := range m.Always {
		names = append(names, id.String())
		kinds[id.Kind]++
	}
	for _, id := range m.Some {
		names = append(names, id.String()+" (for some agents)")
		kinds[id.Kind]++
	}
	n, of, more := len(names), "", ""
	if kinds[tool.Tool] < n {
		of = " (" + text.Count(kinds[tool.Tool], "tool") + ", " + text.Count(kinds[tool.Prompt], "prompt") + ", " + text.Count(kinds[tool.Resource], "resource") + ")"
	}
	if n > maxTools {
		names, more = names[:maxTools], fmt.Sprintf(" and %d more", n-maxTools)
	}
	return fmt.Sprintf("%s %d%s: %s%s", verb, n, of, strings.Join(names, ", "), more)
}
