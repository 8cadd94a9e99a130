package config

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A runner is a program that starts a package; one of its arguments names the package.
type runner struct {
	verbs  []string       // words that may come first
	flags  []string       // flags without a value
	values []string       // flags whose next argument is the value
	names  []string       // flags whose value is the package
	form   *regexp.Regexp // of the package: its name and, perhaps, its version
}

var (
	npmForm  = regexp.MustCompile(`^((?:@[a-z0-9][\w.-]*/)?[a-z0-9][\w.-]*)(@[\w.^~+-]+)?$`)
	pypiForm = regexp.MustCompile(`^([A-Za-z0-9][\w.-]*(?:\[[\w.,-]+\])?)((?:==|@)[\w.!+]+)?$`)

	// A colon before a slash begins the registry's port, not a tag.
	imageForm = regexp.MustCompile(`^((?:[\w.-]+(?::\d+)?/)?[a-z0-9][\w./-]*?)(:[\w.-]+)?(?:@sha256:[0-9a-f]{64})?$`)

	npm = runner{
		flags: []string{"-y", "--yes", "-q", "--quiet", "--silent", "--offline", "--prefer-offline", "--prefer-online"},
		names: []string{"-p", "--package"}, values: []string{"--registry"}, form: npmForm,
	}
	python = runner{
		flags:  []string{"-q", "--quiet", "--isolated", "--offline", "--no-cache", "--no-config", "--refresh"},
		values: []string{"-p", "--python", "--with", "--index", "--default-index", "--index-url", "--extra-index-url"},
		names:  []string{"--from"}, form: pypiForm,
	}
	container = runner{
		verbs: []string{"run"},
		flags: []string{"-i", "-t", "-it", "--interactive", "--tty", "--rm", "--init", "--read-only", "-q", "--quiet"},
		values: []string{
			"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--tmpfs", "--name", "--network", "--net", "-p", "--publish",
			"-w", "--workdir", "-u", "--user", "--entrypoint", "--pull", "--platform", "-m", "--memory", "--cpus",
			"-l", "--label", "--add-host", "--cap-add", "--cap-drop", "--security-opt", "-h", "--hostname",
		},
		form: imageForm,
	}
	runners = map[string]runner{"npx": npm, "bunx": npm, "uvx": python, "docker": container, "podman": container}
)

// maxPackage is the longest package argument, in bytes, in which Release looks for a version.
const maxPackage = 200

// Release returns the package that the command starts, with its version ("x@1.2.3"), and its
// family, which is a hash of the rest of the command: the program, the other arguments, the folder
// and the names of its variables. Two commands of one family differ only in the version. Both
// results are "" if the command starts no package, or starts it in an unknown way.
func (c *Command) Release() (family, version string) {
	run, ok := runners[strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(path.Base(c.Path)), ".exe"), ".cmd")]
	if !ok {
		return "", ""
	}
	at, flag := run.find(c.Args)
	if at < 0 {
		return "", ""
	}
	version = strings.TrimPrefix(c.Args[at], flag)
	name := run.form.FindStringSubmatch(version)
	if name == nil || len(version) > maxPackage {
		return "", ""
	}
	args := slices.Clone(c.Args)
	args[at] = flag + name[1]
	canonical, err := rawjson.Encode(struct {
		Command, Dir string
		Args, Env    []string
		At           int
	}{c.Path, c.Dir, args, slices.Sorted(maps.Keys(c.Env)), at})
	if err != nil {
		panic("config: release: " + err.Error()) // strings can always be encoded
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), version
}

// find returns the index of the argument that names the package, and the flag at its start
// ("--from="). The index is -1 after an unknown flag, because its value may be the next argument.
func (r runner) find(args []string) (at int, flag string) {
	if len(r.verbs) > 0 && (len(args) == 0 || !slices.Contains(r.verbs, args[0])) {
		return -1, ""
	}
	for i := min(len(r.verbs), 1); i < len(args); i++ {
		name, _, valued := strings.Cut(args[i], "=")
		switch {
		case !strings.HasPrefix(args[i], "-"):
			return i, ""
		case slices.Contains(r.names, name) && valued:
			return i, name + "="
		case slices.Contains(r.names, name) && i+1 < len(args):
			return i + 1, ""
		case valued && slices.Contains(r.values, name), slices.Contains(r.flags, args[i]):
		case slices.Contains(r.values, args[i]):
			i++
		default:
			return -1, ""
		}
	}
	return -1, ""
}
