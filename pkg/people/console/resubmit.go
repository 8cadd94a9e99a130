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

// A form comes too late if its session has ended, or if the browser has a new session. Such a form
// has no effect. The sign-in page keeps the form, and after the sign-in the form's page shows the
// typed text again.

// Names of fields of those forms.
const (
	againField = "again" // the form does nothing: it shows its page again, with its other fields
	keptPrefix = "kept."
	noteField  = "note"
	itemField  = "item"
	groupField = "group"
)

// A resubmission is a form that had no effect, and that the browser sends again to its page.
type resubmission struct {
	Page   string // below /admin
	Fields []field
	Cut    bool // Fields lacks a part of the form
}

// Link returns the path of the page, to append to the address of /admin.
func (s *resubmission) Link() string {
	if s.Page == "" || strings.HasPrefix(s.Page, "?") {
		return s.Page
	}
	return "/" + s.Page
}

// Note returns the note that the person typed.
func (s *resubmission) Note() string {
	for _, f := range s.Fields {
		if f.Name == noteField || f.Name == "reason" || f.Name == "why" {
			return f.Value
		}
	}
	return ""
}

type field struct{ Name, Value string }

// resubmissionOf returns the form of r, and its page.
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

// keptOf returns the late form that is in the fields of a sign-in form.
func keptOf(form url.Values) *resubmission {
	fields, cut := fieldsOf(form, func(name string) (string, bool) { return strings.CutPrefix(name, keptPrefix) })
	if len(fields) == 0 && !cut {
		return nil
	}
	return &resubmission{Page: safeNext(form.Get("next")), Fields: fields, Cut: cut}
}

// Limits of a form that a page keeps: the number of fields, and their bytes. A bulk page has the
// most fields.
const (
	maxFormFields = 256
	maxFormSize   = maxForm / 2
)

// fieldsOf returns the fields that rename accepts, sorted by name, and whether it left some out
// because of the limits.
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
			return "\xff" // last, because many selected items would leave no room for other fields
		}
		return f.Name
	}
	slices.SortStableFunc(out, func(a, b field) int { return strings.Compare(rank(a), rank(b)) })
	room, kept := maxFormSize, out[:0]
	for _, f := range out {
		if f.Name == noteField {
			note := firstOf(f.Value, approval.MaxNote)
			f.Value, cut = note, cut || note != f.Value
		}
		size := len(f.Name + f.Value)
		if size > room || len(kept) == maxFormFields {
			cut = true
			continue
		}
		room, kept = room-size, append(kept, f)
	}
	return kept, cut
}

// pageOf returns the page of a form, below /admin. It reads the page from the browser's Referer.
// Without a Referer, it returns the address that received the form.
func pageOf(r *http.Request) string {
	if r.URL.Path == bulkPath { // the page has the same address as its form
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
	for _, verb := range decide.Actions() { // a tool's form is sent to an address below its page
		if page, ok := strings.CutSuffix(next, "/"+verb); ok && strings.Count(next, "/") == 3 {
			return page
		}
	}
	for _, verb := range []string{"/decide", "/withdraw"} { // also the forms about requests
		if page, ok := strings.CutSuffix(next, verb); ok && strings.Count(next, "/") == 2 {
			return page
		}
	}
	return next
}

// A resubmitPage has a button that sends a late form to its page again.
type resubmitPage struct {
	Page
	Form  *resubmission
	Proof string // CSRF token of the current session
}

func (c *Console) showResubmit(w http.ResponseWriter, r *http.Request, status int, csrf string, p *resubmitPage) {
	p.Proof = csrf
	c.render(w, r, status, "resubmit", p)
}

// unproven answers a signed-in caller whose request lacks the CSRF token of the session.
func (c *Console) unproven(w http.ResponseWriter, r *http.Request) {
	if !wantsHTML(r.Header.Get("Accept")) {
		c.deny(w, r, http.StatusForbidden, noProof)
		return
	}
	c.showResubmit(w, r, http.StatusForbidden, callerOf(r.Context()).csrf, &resubmitPage{Form: resubmissionOf(w, r), Page: Page{
		Title: "Nothing was done",
		Problem: "Nothing was done: the form is not from a page of your current session. " +
			"Either you signed in again after you opened its page, or another site made the form.",
	}})
}

// typedKey is the context key of a form that the person typed.
type typedKey struct{}

// typedOf returns the late form of r if there is one. Otherwise it returns the form of a POST, or
// nil.
func typedOf(r *http.Request) url.Values {
	if typed := lateOf(r); typed != nil || r.Method != http.MethodPost {
		return typed
	}
	return r.PostForm
}

// lateOf returns the form of r if it came too late, so that the page can show it again. For any
// other request it returns nil.
func lateOf(r *http.Request) url.Values {
	typed, _ := r.Context().Value(typedKey{}).(url.Values)
	return typed
}

// shownAgain returns a GET request for the page of r, if the form of r has againField. Otherwise it
// returns r. The caller has already parsed the form.
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

const typedAgain = "Nothing was done: your form came too late. Look at the current page, and " +
	"decide again."
