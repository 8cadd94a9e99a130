package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// TempName is the prefix of temporary files.
const TempName = ".tmp-"

// A File is a file that [File.Write] writes.
type File struct {
	Root  *os.Root
	Name  string // below Root
	Mode  fs.FileMode
	Label string // part of the temporary file's name: .tmp-LABEL and 26 letters and digits
	Place Place
}

// A Place gives a complete file its name: [Replace], [Create], or a function that chooses the name.
type Place func(root *os.Root, from, to string) error

// Replace is the [Place] of a file that replaces an existing file.
func Replace(root *os.Root, from, to string) error { return root.Rename(from, to) }

// Create is the [Place] of a new file. If a file of that name exists, it returns [fs.ErrExist].
func Create(root *os.Root, from, to string) error { return root.Link(from, to) }

// Write writes the whole file or nothing, even if the program is killed. write gets a temporary
// file in the same folder. Write syncs that file, and Place then gives it the final name. If
// anything fails before that, Write removes the temporary file, and the folder is unchanged. An
// error names the file instead of the temporary file.
func (f File) Write(write func(temp *os.File) error) (err error) {
	folder := filepath.Dir(f.Name)
	temp := filepath.Join(folder, TempName+f.Label+rand.Text())
	defer func() { err = f.explain(err, temp) }()
	out, err := f.Root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Root.Remove(temp) }() // if Place has linked it, it is still there
	err = write(out)
	if err = errors.Join(err, out.Chmod(f.Mode), out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := f.Place(f.Root, temp, f.Name); err != nil {
		return err
	}
	return SyncFolder(f.Root, folder)
}

// explain returns err with the name of the file instead of the temporary file.
func (f File) explain(err error, temp string) error {
	isTemp := func(path string) bool { return filepath.Base(path) == filepath.Base(temp) }
	named := func(op string, err error) error {
		return &fs.PathError{Op: op, Path: filepath.Join(f.Root.Name(), f.Name), Err: err}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && isTemp(e.Path) {
		return named(e.Op, e.Err)
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok && isTemp(e.Old) {
		return named(e.Op, e.Err)
	}
	return err
}

// WriteFile is [File.Write] for a file that is named by its path.
func WriteFile(path string, mode fs.FileMode, place Place, write func(temp *os.File) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name := filepath.Base(path)
	return File{Root: root, Name: name, Mode: mode, Label: name + "-", Place: place}.Write(write)
}

// SyncFolder syncs the names in a folder, if the system supports it.
func SyncFolder(root *os.Root, folder string) error {
	if runtime.GOOS == "windows" { // Windows refuses it
		return nil
	}
	d, err := root.Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // it was only read
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil // some network file systems return these errors
	}
	return err
}
