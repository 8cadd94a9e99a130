package cli

import (
	"context"
	"log/slog"
	"net"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/internal/metrics"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
)

// A metricsServer serves the metrics of a gateway at their own address. It is nil if metrics are
// off, and its methods then do nothing.
type metricsServer struct {
	exporter *metrics.Exporter
	settings boot.Process
	listener net.Listener
}

// metricsLimits bound the connections and requests at the address of the metrics.
var metricsLimits = capacity.Limits{Memory: 1 << 20, Descriptors: 64}

// listenMetrics listens at the address of the settings. It fails if other machines could read the
// metrics without a token.
func listenMetrics(ctx context.Context, s boot.Process) (*metricsServer, error) {
	if s.MetricsAddr == "" {
		return nil, nil //nolint:nilnil // metrics are off
	}
	listener, err := listen(ctx, boot.MetricsAddrSetting, s.MetricsAddr, "set another address")
	if err != nil {
		return nil, err
	}
	if err := s.CheckMetrics(listener.Addr().(*net.TCPAddr)); err != nil {
		_ = listener.Close() // the first error counts
		return nil, err
	}
	return &metricsServer{exporter: metrics.New(), settings: s, listener: listener}, nil
}

// recorder returns the recorder of the program, or nil.
func (m *metricsServer) recorder() observe.Recorder {
	if m == nil {
		return nil
	}
	return m.exporter
}

// serve answers until the returned function is called.
func (m *metricsServer) serve(
	ctx context.Context, p *boot.Program, stores *folder.Stores,
) (stop func()) {
	if m == nil {
		return func() {}
	}
	m.exporter.Watch(p, map[string]metrics.Store{
		"objects": stores.Objects, "approvals": stores.Approvals, "audit": p.Calls,
	})
	load := func(ctx context.Context) { p.States.Load(ctx) }
	gate := capacity.NewGate(metricsLimits, nil) // callers without the token take no other's place
	handler := gate.Handler(m.exporter.Handler(m.settings.MetricsToken, load))
	server := newServer(context.WithoutCancel(ctx), handler, p.Log)
	server.ConnContext = capacity.WithConn
	go func() { _ = server.Serve(gate.Listener(m.listener)) }() // it ends with stop
	at := reachedAt(m.listener.Addr().(*net.TCPAddr)) + metrics.Path
	p.Log.LogAttrs(ctx, slog.LevelInfo, "metrics are served", slog.String("url", at))
	return func() { _ = server.Close() } // nobody waits for the error
}

// close frees the address.
func (m *metricsServer) close() {
	if m != nil {
		_ = m.listener.Close() // nobody waits for the error
	}
}
