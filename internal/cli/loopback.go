package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// loginTime is how long a person may take at the issuer.
const loginTime = 10 * time.Minute

// pastePrompt asks for the address that pasted reads.
const pastePrompt = "then paste the address of the page to which the browser was sent, and " +
	"press Enter: "

// pasted reads the address of the callback.
func pasted(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, 16<<10)).ReadString('\n')
	u, parsed := url.Parse(strings.TrimSpace(line))
	if parsed != nil || u.RawQuery == "" {
		return "", errors.Join(
			errors.New("that is not the address of a page with a ? in it"),
			ignoreEnd(err),
		)
	}
	return u.RawQuery, nil
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// callbackPage has no style, because its content security policy permits nothing.
const callbackPage = `<!doctype html>
<html lang="en">
<meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width">
<title>Portcullis</title>
<main>
<h1>Portcullis</h1>
<p>%s You can close this page.
</main>
`

// callback serves the one page to which the issuer sends the browser, until ctx ends. finish gets
// the query of the callback once, and returns the sentence for the page. The argument address is
// the page at the issuer. Every page in the browser can send requests to the port, so callback
// ignores a callback without the state of this sign-in.
func callback(
	ctx context.Context, l net.Listener, address, issuer string, finish func(query string) string,
) error {
	state := ""
	if u, err := url.Parse(address); err == nil {
		state = u.Query().Get("state")
	}
	came := make(chan struct{})
	var once sync.Once
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		sentence := "This page belongs to another sign-in, and nothing was changed."
		if r.URL.Query().Get("state") == state {
			sentence = "This sign-in has ended already."
			once.Do(func() {
				defer close(came)
				sentence = finish(r.URL.RawQuery)
			})
		} else {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, callbackPage, html.EscapeString(sentence))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Shutdown(context.WithoutCancel(ctx)) }()
	select {
	case <-came:
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("nobody came back from %s in time", issuer)
		}
		return errors.New("interrupted")
	}
}

// startBrowser opens an address that the person has on the terminal already.
func startBrowser(ctx context.Context, env *environment, address string) {
	if err := env.browse(ctx, address); err != nil {
		fmt.Fprintf(
			env.stderr,
			"no browser could be started (%v): open the address yourself\n",
			err,
		)
	}
}

// listenNear listens on a port of 127.0.0.1 that depends on the server's name, so that a later
// login can use the same registration at the issuer. If the port is in use, it uses any other port.
func listenNear(ctx context.Context, name string) (net.Listener, error) {
	var o net.ListenConfig
	l, err := o.Listen(ctx, "tcp", addressNear(name))
	if err == nil {
		return l, nil
	}
	return o.Listen(ctx, "tcp", "127.0.0.1:0")
}

// addressNear returns the usual address of [listenNear].
func addressNear(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return "127.0.0.1:" + strconv.FormatUint(uint64(49152+h.Sum32()%16384), 10)
}
