//go:build !linux

package process

// A starter runs functions. Only Linux needs a separate thread.
type starter struct{}

func (*starter) do(f func()) { f() }
func (*starter) stop()       {}
