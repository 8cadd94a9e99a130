package mcphttp

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// basePath matches the path of a base URL: names that need no escape in a URL or a header. No name
// begins with a dot, so none is .well-known or leads to a parent.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// ownNames are names below the base URL. A path with one of them is probably the address of an
// endpoint and not of the gateway.
var ownNames = []string{"mcp", "admin", "healthz", "livez", "readyz"}

// ParseBaseURL reads a public address of a gateway, without a slash at its end. A path can be
// appended to it.
func ParseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	isOwn := slices.ContainsFunc(
		strings.Split(u.Path, "/"),
		func(name string) bool { return slices.Contains(ownNames, name) },
	)
	if u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawPath != "" || !basePath.MatchString(u.Path) || isOwn ||
		strings.ContainsAny(s, "?#") ||
		u.User != nil {
		return nil, fmt.Errorf(
			"base URL %q is not scheme://host or scheme://host/path, without the endpoint /mcp",
			s,
		)
	}
	return u, nil
}

// MetadataURL returns the address of the metadata of the resource at path below a base URL. RFC
// 9728 puts the well-known part between the host and the whole path of the resource.
func MetadataURL(baseURL, path string) string {
	u, err := ParseBaseURL(baseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + metadataPath + u.Path + path
}

// Below returns a handler that serves h at the root, and also below the path of each base URL. A
// proxy that shares its host with other programs keeps the path in the requests that it passes on.
// Commands on the gateway's machine send requests without the path.
func Below(h http.Handler, baseURLs ...string) http.Handler {
	for _, base := range slices.Compact(baseURLs) {
		if u, err := ParseBaseURL(base); err == nil && u.Path != "" {
			h = belowPath(h, u.Path)
		}
	}
	return h
}

// belowPath is [Below] for one path.
func belowPath(h http.Handler, path string) http.Handler {
	stripped := http.StripPrefix(path, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, isMetadata := strings.CutPrefix(r.URL.Path, metadataPath+path)
		switch {
		case isMetadata && (resource == "" || resource[0] == '/'):
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = metadataPath+resource, ""
		case r.URL.Path == path && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.Header().Set("Location", path+"/")
			w.WriteHeader(http.StatusFound)
			return
		case strings.HasPrefix(r.URL.Path, path+"/"):
			stripped.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
