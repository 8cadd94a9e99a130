package testclients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// An interceptor is a forward proxy that decrypts TLS. It requires a login, and uses certificates
// of its own CA.
type interceptor struct {
	URL string // with user and password
	CA  string // file of the CA's certificate

	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	pass http.Handler // forwards the decrypted requests

	mu   sync.Mutex
	seen map[string]int // requests, by host
}

const proxyPassword = "pr0xy-pass-of-ada"

// newInterceptor starts a proxy. It forwards requests through the proxy of this process, if there
// is one.
func newInterceptor(t *testing.T) *interceptor {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.OK(t, err)
	p := &interceptor{key: key, CA: filepath.Join(t.TempDir(), "ca.pem"), seen: map[string]int{}}
	p.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "A company's CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, p.ca, p.ca, key.Public(), key)
	require.OK(t, err)
	require.OK(t, os.WriteFile(p.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	roots, err := x509.SystemCertPool() // read the pool before the environment names another file
	require.OK(t, err)
	onward := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	if up, err := url.Parse(os.Getenv("HTTPS_PROXY")); err == nil && up.Host != "" {
		onward.Proxy = http.ProxyURL(up)
	}
	p.pass = &httputil.ReverseProxy{
		Transport: onward, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "https", Host: r.In.Host}) },
	}
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(s.Close)
	p.URL = "http://ada:" + proxyPassword + "@" + s.Listener.Addr().String()
	return p
}

// serve opens a tunnel and decrypts the requests in it.
func (p *interceptor) serve(w http.ResponseWriter, r *http.Request) {
	login := base64.StdEncoding.EncodeToString([]byte("ada:" + proxyPassword))
	if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic "+login {
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	opened := tls.Server(conn, &tls.Config{NextProtos: []string{"http/1.1"}, GetCertificate: p.certificate})
	served := make(chan struct{})
	l := &oneConn{conn: opened, served: served}
	_ = (&http.Server{
		ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			p.seen[r.Host]++
			p.mu.Unlock()
			p.pass.ServeHTTP(w, r)
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				close(served)
			}
		},
	}).Serve(l)
}

// certificate issues a certificate for the requested host.
func (p *interceptor) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{hello.ServerName}, Subject: pkix.Name{CommonName: hello.ServerName},
		NotBefore: p.ca.NotBefore, NotAfter: p.ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, p.ca, p.key.Public(), p.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: p.key}, err
}

// requests returns how many requests the proxy has seen for a host.
func (p *interceptor) requests(host string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[host]
}

// A oneConn is a listener that returns one connection.
type oneConn struct {
	conn   net.Conn
	served chan struct{} // closed when the connection has ended
	taken  bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.taken {
		l.taken = true
		return l.conn, nil
	}
	<-l.served
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
