//go:build !linux

package process

// A starter runs functions. Only on Linux it needs a thread of its own for that.
type starter struct{}

func (*starter) do(f func()) { f() }
func (*starter) stop()       {}
