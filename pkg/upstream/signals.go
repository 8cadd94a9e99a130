package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"syscall"

	"github.com/portcullis-mcp/portcullis/pkg/egress"
)

// Signals are what the types in an error tree say, whoever wrapped or joined them.
type signals struct {
	config, credential, panicked bool
	timeout, dnsTimeout, dns     bool
	refused, unreachable         bool
	reset, eof, tls              bool
	protocol                     string // a reason, "" if none
	rpc                          *RPCError
}

// maxErrors bounds the walk through an error tree that somebody else built.
const maxErrors = 10_000

// read walks the whole tree of err and notes every signal in it. Texts are not read.
func (s *signals) read(err error) {
	queue := []error{err}
	for seen := 0; len(queue) > 0 && seen < maxErrors; seen++ {
		err := queue[len(queue)-1]
		queue = append(queue[:len(queue)-1], s.note(err)...)
	}
}

// note notes what one node says and returns the nodes below it.
func (s *signals) note(err error) (below []error) {
	// The methods are somebody else's: one that panics says nothing.
	defer func() {
		if recover() != nil {
			below = nil
		}
	}()
	switch err := err.(type) { //nolint:errorlint // one node, not the chain: the walk is ours
	case *net.DNSError:
		// A name server that refuses or hangs up is a matter of names, not of the server.
		s.dnsTimeout = s.dnsTimeout || err.IsTimeout
		s.dns = s.dns || !err.IsTimeout
		return nil
	case *configError, *egress.BlockedError:
		s.config = true
	case *credentialError:
		s.credential = true
	case *panicError:
		s.panicked = true
	case *protocolError:
		s.protocol = err.reason
	case *RPCError:
		s.rpc = err
	case *egress.TLSError, *tls.CertificateVerificationError, tls.RecordHeaderError, tls.AlertError,
		x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError, x509.SystemRootsError:
		s.tls = true
	case syscall.Errno:
		s.errno(err)
	case *net.OpError:
		// The alerts of crypto/tls have no other type that one can ask for.
		s.tls = s.tls || err.Op == "remote error" || err.Op == "local error"
		s.timeout = s.timeout || err.Timeout()
	case net.Error:
		s.timeout = s.timeout || err.Timeout()
	}
	s.reset = s.reset || err == errStreamEnded                   //nolint:errorlint // one node
	s.eof = s.eof || err == io.EOF || err == io.ErrUnexpectedEOF //nolint:errorlint // one node
	switch err := err.(type) {                                   //nolint:errorlint // one node
	case interface{ Unwrap() error }:
		return []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	}
	return nil
}

func (s *signals) errno(err syscall.Errno) {
	switch err {
	case syscall.ECONNREFUSED:
		s.refused = true
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN:
		s.unreachable = true
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		s.reset = true
	default:
		s.timeout = s.timeout || err.Timeout()
	}
}
