package console_test

import (
	"strings"
	"testing"
)

// A place is a page with its name in pictures.
type place struct{ name, path string }

// pages are those of a desk at which nothing was decided yet.
func (d *desk) pages() []place {
	return []place{
		{"inbox", "/admin"},
		{"tools", "/admin/tools"},
		{"queue", "/admin/tools?status=pending_approval"},
		{"review-word", page(d.fleet.Word)},
		{"review-parameter", page(d.fleet.Parameter)},
		{"review-hidden", page(d.fleet.Hidden)},
		{"review-new", page(d.fleet.New[0])},
		{"history", page(d.fleet.Word) + "/history"},
		{"servers", "/admin/servers"},
		{"server", "/admin/servers/" + strings.Split(d.fleet.Word, ":")[0]},
		{"config", "/admin/config"},
	}
}

// Every page fits into a window of 320 px and at 200 %, light and dark, and breaks no rule of axe.
func TestPages(t *testing.T) {
	d := open(t, small())
	for _, p := range d.pages() {
		d.tab.Run(p.name, func(*testing.T) {
			d.tab.Goto(p.path)
			d.tab.See("h1")
			d.tab.Everywhere(p.name)
		})
	}
}
