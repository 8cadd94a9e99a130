package secret

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// ReadFile returns the values of a secret in a file. The first line has the current value, and the
// second line, if there is one, the previous value. A space and the time at which the value was set
// may follow a value. ReadFile refuses a file that other users of
// the machine could read.
func ReadFile(path string) (v Versions, err error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return v, err
	case !info.Mode().IsRegular():
		return v, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows": // Windows has no such bits
		return v, fmt.Errorf("%s could be read by other users of this machine (mode %v): replace its values, and run chmod 600", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	for _, version := range []*Version{&v.Current, &v.Previous} {
		if !lines.Scan() {
			break
		}
		text, since, dated := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		version.Text = New(text)
		if !dated {
			continue
		}
		if version.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return Versions{}, fmt.Errorf("%s: a line is not a key, a space and a time such as 2026-11-22T22:00:00Z", path)
		}
	}
	return v, lines.Err()
}

// FileText returns the content of a file for [ReadFile].
func FileText(v Versions) string {
	var b strings.Builder
	for _, version := range []Version{v.Current, v.Previous} {
		if version.Text.Reveal() == "" {
			continue
		}
		b.WriteString(version.Text.Reveal())
		if !version.Since.IsZero() {
			b.WriteString(" " + version.Since.UTC().Format(time.RFC3339))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
