//go:build !linux

package process

// A starter runs functions. Only Linux has a use for a thread of its own.
type starter struct{}

func (*starter) do(f func()) { f() }
func (*starter) stop()       {}
