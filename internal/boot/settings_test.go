package boot

import (
	"strings"
	"testing"
	"time"
)

// An unreadable schedule is not a fault. The gateway then does not know when a catalog is too old.
func TestLoadSchedule(t *testing.T) {
	for schedule, want := range map[string]time.Duration{
		"":                   0,
		"rate(1 minute)":     time.Minute,
		"rate(5 minutes)":    5 * time.Minute,
		"rate(2 hours)":      2 * time.Hour,
		"rate(1 day)":        24 * time.Hour,
		"cron(0 12 * * ? *)": 0,
		"rate(0 minutes)":    0,
		"rate(5 minutes":     0,
		"rate(1":             0,
		"rate(5 moons)":      0,
		"5m":                 0,
	} {
		s, err := Load(func(name string) string {
			return map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_SYNC_SCHEDULE": schedule}[name]
		})
		if s.SyncEvery != want || err != nil {
			t.Errorf("%q: every %v, %v; want %v", schedule, s.SyncEvery, err, want)
		}
	}
}

func TestLoadKeepAudit(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 0, "30": 30, "36500": 36500, "-1": -1, "36501": -1, "a month": -1} {
		s, err := Load(func(name string) string {
			return map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_AUDIT_DAYS": text}[name]
		})
		if want < 0 {
			if err == nil || !strings.Contains(err.Error(), "PORTCULLIS_AUDIT_DAYS") {
				t.Errorf("%q: %v, want a fault that names the setting", text, err)
			}
		} else if err != nil || s.KeepAudit != time.Duration(want)*24*time.Hour {
			t.Errorf("%q: %v, %v; want %d days", text, s.KeepAudit, err, want)
		}
	}
}

func TestLoadConcurrency(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1": 1, "512": 512, "0": -1, "513": -1, "many": -1} {
		s, err := Load(func(name string) string {
			return map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_SYNC_CONCURRENCY": text}[name]
		})
		if fault := want < 0; (err != nil) != fault || !fault && s.Concurrency != want || fault && !strings.Contains(err.Error(), "PORTCULLIS_SYNC_CONCURRENCY") {
			t.Errorf("%q: %d, %v", text, s.Concurrency, err)
		}
	}
}
