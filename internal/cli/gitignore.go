package cli

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
)

// ignored returns the lines for .gitignore. They name the files in a gateway's folder that are
// secret or belong to one machine.
func ignored() []string {
	return []string{
		folder.KeyFile, folder.SealFile, folder.TokenFile, folder.VaultFile,
		folder.ApprovalsFile, folder.ApprovalsFile + ".*", folder.AuditFolder + "/",
		folder.BackupFolder + "/", folder.InfoFile, folder.InfoLock, "catalog/", ".lock", ".tmp-*", "*.bak-*",
	}
}

// lackIgnored returns which of the lines a .gitignore lacks, and the content of the .gitignore. A
// missing file counts as an empty file.
func lackIgnored(path string, lines []string) (lacks []string, data []byte, err error) {
	data, err = os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		have[strings.Trim(strings.TrimSpace(line), "/")] = true
	}
	for _, line := range lines {
		if !have[strings.Trim(line, "/")] {
			lacks = append(lacks, line)
		}
	}
	return lacks, data, nil
}

// addIgnored appends the missing lines to a .gitignore, and returns them.
func addIgnored(path string, lines []string) (added []string, err error) {
	added, data, err := lackIgnored(path, lines)
	if err != nil || len(added) == 0 {
		return nil, err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	if len(data) > 0 {
		data = append(data, '\n')
	}
	data = append(data, "# Keys and state of the gateway.\n"+strings.Join(added, "\n")+"\n"...)
	return added, replaceFile(path, data, 0o644)
}

// ignoreFile adds a line for a file to the .gitignore of a gateway's folder, unless the file is
// ignored already. If the file is outside the folder, isWithin is false and nothing is written.
func ignoreFile(dir, file string) (isWithin bool, err error) {
	if dir, err = realPath(dir); err != nil {
		return false, err
	}
	folder, err := realPath(filepath.Dir(file))
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(dir, filepath.Join(folder, filepath.Base(file)))
	if err != nil || !filepath.IsLocal(rel) {
		return false, err
	}
	if strings.ContainsAny(rel, "\r\n") {
		return false, errors.New("no line can name a file with a line break in its name")
	}
	top, ok := repositoryOf(dir)
	if !ok {
		top = dir
	}
	if isIgnored(top, filepath.Join(dir, rel), false) {
		return true, nil
	}
	where, lines := filepath.Join(dir, ".gitignore"), []string{ignoreLine(rel)}
	if _, err := os.Stat(where); errors.Is(err, fs.ErrNotExist) {
		lines = append(ignored(), lines...)
	}
	_, err = addIgnored(where, lines)
	return true, err
}

// realPath returns the absolute path of a folder, without symbolic links.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// ignoreLine returns the line that names one file, by its path relative to the folder of the
// .gitignore.
func ignoreLine(rel string) string {
	special := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	return "/" + special.Replace(filepath.ToSlash(rel))
}

// repositoryOf returns the top folder of the Git repository that a folder is in.
func repositoryOf(dir string) (top string, ok bool) {
	top, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for {
		if _, err := os.Stat(filepath.Join(top, ".git")); err == nil {
			return top, true
		}
		above := filepath.Dir(top)
		if above == top {
			return "", false
		}
		top = above
	}
}

// isIgnored reports whether the .gitignore files of a repository exclude a file or a folder. It
// does not support "**" within a pattern, or Git's other ignore files: in these cases it returns
// false. It does not run Git, because a repository's settings can make Git run programs.
func isIgnored(top, file string, isDir bool) bool {
	rel, err := filepath.Rel(top, file)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return false
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for n := range parts {
		if ignoresPart(top, parts[:n+1], isDir || n+1 < len(parts)) {
			return true
		}
	}
	return false
}

// ignoresPart reports whether the .gitignore files in the folders above a path exclude the path
// itself. If several lines match, the last line decides.
func ignoresPart(top string, parts []string, isDir bool) (is bool) {
	folder := top
	for n, part := range parts {
		// an unreadable file has no lines
		data, _ := os.ReadFile(filepath.Join(folder, ".gitignore"))
		for line := range strings.Lines(string(data)) {
			line = strings.TrimRight(line, " \t\r\n")
			pattern, again := strings.CutPrefix(line, "!")
			if !strings.HasPrefix(line, "#") && matchesIgnored(pattern, parts[n:], isDir) {
				is = !again
			}
		}
		folder = filepath.Join(folder, part)
	}
	return is
}

// matchesIgnored reports whether a pattern of a .gitignore matches a path below its folder.
func matchesIgnored(pattern string, below []string, isDir bool) bool {
	pattern, onlyDir := strings.CutSuffix(pattern, "/")
	if pattern == "" || onlyDir && !isDir {
		return false
	}
	pattern = strings.TrimPrefix(pattern, "**/")
	name := below[len(below)-1]
	if strings.Contains(pattern, "/") {
		pattern, name = strings.TrimPrefix(pattern, "/"), strings.Join(below, "/")
	}
	is, err := path.Match(pattern, name)
	return err == nil && is
}

// secretFiles returns the files with secrets in a gateway's folder, in its folder config, and in
// the folders above it in the repository. These are the files that import wrote, and the
// environment files that set one of the variables in names.
func secretFiles(top, dir string, names []string) (found []string) {
	look := func(folder string) {
		// ignore the error: git add cannot add files of an unreadable folder either
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			file := filepath.Join(folder, e.Name())
			if e.Type().IsRegular() && setsSecrets(file, names) {
				found = append(found, file)
			}
		}
	}
	look(filepath.Join(dir, "config"))
	for {
		look(dir)
		if dir == top || dir == filepath.Dir(dir) {
			return found
		}
		dir = filepath.Dir(dir)
	}
}

// secretsMark is the first line of a file that import writes.
const secretsMark = "# Secrets of the gateway's environment. Keep this file out of every repository.\n"

const maxSecrets = 1 << 20 // maximum size of a checked file

// setsSecrets reports whether a file contains secrets: import wrote the file, or the file has the
// name of an environment file and sets one of the names.
func setsSecrets(file string, names []string) bool {
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxSecrets {
		return false
	}
	data, err := os.ReadFile(file)
	base := filepath.Base(file)
	switch {
	case err != nil:
		return false
	case strings.HasPrefix(string(data), secretsMark):
		return true
	case !strings.HasPrefix(base, ".env") && !strings.HasSuffix(base, ".env"):
		return false
	}
	for line := range strings.Lines(string(data)) {
		name, value, assigned := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if assigned && value != "" && slices.Contains(names, strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}
