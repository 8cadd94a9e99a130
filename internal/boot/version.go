package boot

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// What the linker sets, as in -X github.com/portcullis-mcp/portcullis/internal/boot.Version=v1.2.0.
var (
	Version = "dev" // of the program
	Commit  string  // that it was built from; "": as the Go command noted it
	Date    string  // of the build, or of the commit where builds are to be the same again: 2026-11-21T21:00:00Z; "": likewise
)

// A Build says which program this is.
type Build struct {
	Version  string `json:"version"`            // dev: neither linker nor Go command knew one
	Commit   string `json:"commit,omitempty"`   // "": not known, as of a module that was installed by its version
	Modified bool   `json:"modified,omitempty"` // it was built with changes that are in no commit
	Date     string `json:"date,omitempty"`     // "": not known
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild returns what is known of this program. Where the linker set no version it is the module's,
// such as v1.2.0, or one that holds the commit, if the Go command knew it.
func ThisBuild() Build {
	b := Build{Version: Version, Commit: Commit, Date: Date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	noted := map[string]string{}
	for _, s := range info.Settings {
		noted[s.Key] = s.Value
	}
	if v := info.Main.Version; b.Version == "dev" && v != "" && v != "(devel)" {
		b.Version = v
	}
	if b.Modified = Commit == "" && noted["vcs.modified"] == "true"; b.Modified {
		b.Version = strings.TrimSuffix(b.Version, "+dirty") // which is what modified says
	}
	b.Commit, b.Date = cmp.Or(b.Commit, noted["vcs.revision"]), cmp.Or(b.Date, noted["vcs.time"])
	return b
}

// LongVersion returns the version and the Go version for a person.
func LongVersion() string {
	b := ThisBuild()
	if b.Modified {
		b.Version += "+dirty"
	}
	return b.Version + " " + b.Go
}
