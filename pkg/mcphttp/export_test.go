package mcphttp

import "net/http"

// Remembered returns of how many sessions something is remembered.
func Remembered(h http.Handler) int { return len(h.(*handler).live.sessions) }

// HeldOpen returns how many streams are held open.
func HeldOpen(h http.Handler) int {
	holder := &h.(*handler).holder
	holder.mu.Lock()
	defer holder.mu.Unlock()
	return holder.inAll
}
