package boot

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestLoadTraces(t *testing.T) {
	for _, tt := range []struct {
		name, url, fault string
		env              []string
	}{
		{"none", "", "", nil},
		{"a collector", "http://localhost:4318/v1/traces", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318/"}},
		{"an address only for traces", "https://o.example.com/t", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://o.example.com/t"}},
		{"switched off", "", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318", "OTEL_SDK_DISABLED=true"}},
		{"no address", "", "OTEL_EXPORTER_OTLP_ENDPOINT", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318"}},
		{"credentials in the address", "", "without credentials", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=https://a:hidden@o.example.com"}},
		{"another protocol", "", "OTEL_EXPORTER_OTLP_PROTOCOL", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}},
		{"invalid headers", "", "OTEL_EXPORTER_OTLP_HEADERS", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318", "OTEL_EXPORTER_OTLP_HEADERS=hidden"}},
		{"perhaps", "", "PORTCULLIS_TRACE_CALLERS", []string{"PORTCULLIS_TRACE_CALLERS=perhaps"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Load(environ(append(tt.env, "PORTCULLIS_AUTH=none")))
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) || strings.Contains(err.Error(), "hidden") {
					t.Errorf("%v", err)
				}
				return
			}
			require.OK(t, err)
			if s.Traces.URL != tt.url || (New(s, Stores{}, Options{}).Tracer != nil) != (tt.url != "") {
				t.Errorf("spans go to %q, want %q", s.Traces.URL, tt.url)
			}
		})
	}
}

func TestHeadersOfTraces(t *testing.T) {
	h, err := parseHeaders("api-key=a%20b+c, x-team = gate")
	if err != nil || h.Get("Api-Key") != "a b+c" || h.Get("X-Team") != "gate" {
		t.Errorf("%v, %v", h, err)
	}
	if h, err := parseHeaders(""); err != nil || len(h) != 0 {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := parseHeaders("a=b%0d%0ac"); err == nil {
		t.Error("a header with a line break was accepted")
	}
}

// A server receives a trace id only if the operator names the server.
func TestServersThatReceiveTraceIDs(t *testing.T) {
	for servers, want := range map[string]bool{"": false, "git": false, "git,notes": true, "*": true} {
		s, err := Load(environ([]string{"PORTCULLIS_AUTH=none", "PORTCULLIS_TRACE_SERVERS=" + servers}))
		if require.OK(t, err); s.Traces.tells("notes") != want {
			t.Errorf("%q: %t", servers, !want)
		}
	}
}
