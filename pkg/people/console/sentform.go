package console

import "net/http"

// The script of our pages sends forms in which people type by htmx. So if the gateway does not
// answer, the page and the typed text stay. The answer to such a form is the page that a browser
// without scripts gets, and the script shows its main part. But the script could not see a
// redirect, because browsers follow redirects themselves. It would get the next page, and the
// browser would load this page a second time to show it. So for the script, a redirect is a header.

// sentByScript reports whether our script sent the form of r.
func sentByScript(r *http.Request) bool {
	return !isSafe(r.Method) && r.Header.Get("Hx-Request") != ""
}

// A headerRedirect is a ResponseWriter that writes a redirect as the header Hx-Redirect.
type headerRedirect struct{ http.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w headerRedirect) WriteHeader(status int) {
	if h := w.Header(); status == http.StatusSeeOther {
		h.Set("Hx-Redirect", h.Get("Location"))
		h.Del("Location")
		status = http.StatusNoContent
	}
	w.ResponseWriter.WriteHeader(status)
}
