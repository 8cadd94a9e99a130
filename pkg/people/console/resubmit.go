package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// A form can come too late: its session is over, or another one than when the page was shown. It is
// not carried out, and what was typed is not lost: it goes along with the sign-in, and then the
// page is shown with it again.

// Names of fields of those forms.
const (
	againField = "again" // the page is to be shown, with what else the form holds, and nothing to be done
	keptPrefix = "kept."
	noteField  = "note"
	itemField  = "item"
)

// A resubmission is a form that was not carried out. It is sent to the page that it stood on.
type resubmission struct {
	Page   string // below /admin
	Fields []field
	Cut    bool // not all that was typed is in Fields
}

// Link returns the address of the page, to be put behind that of /admin.
func (s *resubmission) Link() string {
	if s.Page == "" || strings.HasPrefix(s.Page, "?") {
		return s.Page
	}
	return "/" + s.Page
}

// Note returns the note that was typed.
func (s *resubmission) Note() string {
	for _, f := range s.Fields {
		if f.Name == noteField || f.Name == "reason" || f.Name == "why" {
			return f.Value
		}
	}
	return ""
}

type field struct{ Name, Value string }

// resubmissionOf returns what it takes to show again what r holds.
func resubmissionOf(w http.ResponseWriter, r *http.Request) *resubmission {
	out := &resubmission{Page: pageOf(r)}
	if !isForm(r) {
		return out
	}
	if readForm(w, r) != nil {
		out.Cut = true
		return out
	}
	out.Fields, out.Cut = fieldsOf(r.PostForm, func(name string) (string, bool) {
		return name, name != "csrf" && name != againField && !strings.HasPrefix(name, keptPrefix)
	})
	return out
}

// keptOf returns what a sign-in form carries.
func keptOf(form url.Values) *resubmission {
	fields, cut := fieldsOf(form, func(name string) (string, bool) { return strings.CutPrefix(name, keptPrefix) })
	if len(fields) == 0 && !cut {
		return nil
	}
	return &resubmission{Page: safeNext(form.Get("next")), Fields: fields, Cut: cut}
}

// How much a page carries on of a form: fields, and bytes of them. A bulk page has the most.
const (
	maxKept  = 256
	keptSize = maxForm / 2
)

// fieldsOf returns the fields of a form that rename takes, by name, and whether it leaves some out
// for want of room.
func fieldsOf(form url.Values, rename func(name string) (string, bool)) (out []field, cut bool) {
	for name, values := range form {
		if name, ok := rename(name); ok {
			for _, v := range values {
				out = append(out, field{name, v})
			}
		}
	}
	rank := func(f field) string {
		if f.Name == itemField {
			return "\xff" // the ticked tools last: they can be many
		}
		return f.Name
	}
	slices.SortStableFunc(out, func(a, b field) int { return strings.Compare(rank(a), rank(b)) })
	room, kept := keptSize, out[:0]
	for _, f := range out {
		if f.Name == noteField {
			note := firstOf(f.Value, approval.MaxNote)
			f.Value, cut = note, cut || note != f.Value
		}
		size := len(f.Name + f.Value)
		if size > room || len(kept) == maxKept {
			cut = true
			continue
		}
		room, kept = room-size, append(kept, f)
	}
	return kept, cut
}

// pageOf returns the page below /admin that a form stood on, as the browser says, or else the
// address that it was sent to.
func pageOf(r *http.Request) string {
	if r.URL.Path == bulkPath { // which shows what is sent to it
		return nextOf(r)
	}
	if from, err := url.Parse(r.Referer()); err == nil && strings.EqualFold(from.Host, r.Host) {
		if _, page, ok := strings.Cut(from.EscapedPath(), "/admin/"); ok && from.RawQuery != "" {
			return safeNext(page + "?" + from.RawQuery)
		} else if ok {
			return safeNext(page)
		}
	}
	next := nextOf(r)
	for _, verb := range decide.Actions() { // the form of a tool is sent below its page
		if page, ok := strings.CutSuffix(next, "/"+verb); ok && strings.Count(next, "/") == 3 {
			return page
		}
	}
	for _, verb := range []string{"/decide", "/withdraw"} { // and those about requests
		if page, ok := strings.CutSuffix(next, verb); ok && strings.Count(next, "/") == 2 {
			return page
		}
	}
	return next
}

// A resubmitPage sends a form that came too late to the page that it stood on.
type resubmitPage struct {
	Page
	Form  *resubmission
	Proof string // of the session that there is now
}

func (c *Console) showResubmit(w http.ResponseWriter, r *http.Request, status int, csrf string, p *resubmitPage) {
	p.Proof = csrf
	c.render(w, r, status, "resubmit", p)
}

// unproven answers a request of somebody who is signed in without the proof that its pages hold.
func (c *Console) unproven(w http.ResponseWriter, r *http.Request) {
	if !wantsHTML(r.Header.Get("Accept")) {
		c.deny(w, r, http.StatusForbidden, noProof)
		return
	}
	c.showResubmit(w, r, http.StatusForbidden, callerOf(r.Context()).csrf, &resubmitPage{Form: resubmissionOf(w, r), Page: Page{
		Title: "Nothing was done",
		Problem: "The form does not come from a page of the session that you are signed in with, so nothing was done: " +
			"you signed in anew since its page was opened, or another site made it.",
	}})
}

// typedKey is the context key of what was typed.
type typedKey struct{}

// typedOf returns what was typed into the form that r sends, or into one that came too late; nil if
// there is none.
func typedOf(r *http.Request) url.Values {
	if typed := lateOf(r); typed != nil || r.Method != http.MethodPost {
		return typed
	}
	return r.PostForm
}

// lateOf returns what was typed into a form that came too late, for the page to show it again; nil
// for any other request.
func lateOf(r *http.Request) url.Values {
	typed, _ := r.Context().Value(typedKey{}).(url.Values)
	return typed
}

// shownAgain returns r, whose form was read, as a request for the page, if it is a form that is only
// to be shown again.
func shownAgain(r *http.Request) *http.Request {
	if isSafe(r.Method) || !r.PostForm.Has(againField) {
		return r
	}
	if note := r.PostForm.Get(noteField); note != "" {
		r.PostForm.Set(noteField, firstOf(note, approval.MaxNote))
	}
	r = r.WithContext(context.WithValue(r.Context(), typedKey{}, r.PostForm))
	r.Method = http.MethodGet
	return r
}

const typedAgain = "Nothing was done: what you sent came too late. Look at the page as it is now, and decide again."
