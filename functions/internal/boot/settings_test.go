package boot

import (
	"strings"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		schedule string
		want     time.Duration
		fault    bool
	}{
		{"", 0, false},
		{"rate(1 minute)", time.Minute, false},
		{"rate(5 minutes)", 5 * time.Minute, false},
		{"rate(2 hours)", 2 * time.Hour, false},
		{"rate(1 day)", 24 * time.Hour, false},
		{"cron(0 12 * * ? *)", 0, false},
		{"rate(0 minutes)", 0, true},
		{"rate(5 minutes", 0, true},
		{"rate(5 moons)", 0, true},
		{"5m", 0, true},
	} {
		t.Run("schedule "+tt.schedule, func(t *testing.T) {
			s, err := Load(func(name string) string {
				return map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_SYNC_SCHEDULE": tt.schedule}[name]
			})
			if s.SyncEvery != tt.want || (err != nil) != tt.fault || err != nil && !strings.Contains(err.Error(), "PORTCULLIS_SYNC_SCHEDULE") {
				t.Errorf("every %v, %v; want %v, fault %v", s.SyncEvery, err, tt.want, tt.fault)
			}
		})
	}
}

func TestConcurrencyOfASync(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1": 1, "512": 512, "0": -1, "513": -1, "many": -1} {
		s, err := Load(func(name string) string {
			return map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_SYNC_CONCURRENCY": text}[name]
		})
		if fault := want < 0; (err != nil) != fault || !fault && s.Concurrency != want || fault && !strings.Contains(err.Error(), "PORTCULLIS_SYNC_CONCURRENCY") {
			t.Errorf("%q: %d, %v", text, s.Concurrency, err)
		}
	}
}
