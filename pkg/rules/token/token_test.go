package token_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestNewAndRead(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		s := token.New().Reveal()
		if !strings.HasPrefix(s, "pct_") || len(s) != 4+43 || seen[s] {
			t.Fatalf("New = %q", s)
		}
		seen[s] = true
		if back, ok := token.Read(s); !ok || back.Reveal() != s {
			t.Errorf("Read(%q) = %v", s, ok)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := token.New().Reveal()
	for _, s := range []string{
		"", "pct_", good[:len(good)-1], good + "A", "PCT_" + good[4:], good[:10] + "!" + good[11:], " " + good[1:],
		good[:len(good)-1] + "B", // the same bits as "A" to a lax reader: two texts of one token
	} {
		if _, ok := token.Read(s); ok {
			t.Errorf("Read accepts %q", s)
		}
	}
}

func TestReadAdmin(t *testing.T) {
	key := token.NewAdmin().Reveal()
	if back, ok := token.ReadAdmin(key); !ok || back.Reveal() != key || len(key) != 4+43 || !strings.HasPrefix(key, "pca_") {
		t.Errorf("ReadAdmin(%q) = %v", key, ok)
	}
	if _, ok := token.Read(key); ok {
		t.Error("an admin key is read as an agent token")
	}
	for _, s := range []string{"", "pca_", token.New().Reveal(), key[:len(key)-1], key + "\n", key[:20] + "\n" + key[20:]} {
		if _, ok := token.ReadAdmin(s); ok {
			t.Errorf("ReadAdmin accepts %q", s)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	text, key := token.New(), tokentest.Key(t)
	data, err := json.Marshal(map[string]any{"text": text})
	require.OK(t, err)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "made", slog.Any("text", text), slog.Any("key", key))
	for _, s := range []string{fmt.Sprint(text), fmt.Sprintf("%v %+v %#v %s %q", text, text, text, text, text), string(data), log.String(), fmt.Sprintf("%v %#v %x", key, key, key)} {
		if strings.Contains(s, text.Reveal()[4:20]) || strings.Contains(s, "tests alone") {
			t.Errorf("a secret prints: %s", s)
		}
	}
}

func TestKeyIdentify(t *testing.T) {
	text := token.New()
	id, hash := tokentest.Key(t).Identify(text)
	other, err := token.NewKey(strings.Repeat("k", 32))
	require.OK(t, err)
	id2, hash2 := other.Identify(text)
	if strings.HasPrefix(hash, id) || id == id2 || hash == hash2 || len(hash) != 64 {
		t.Errorf("id %s, hash %s; under another key %s, %s", id, hash, id2, hash2)
	}
	if token.SameHash("", "") || token.SameHash(hash, hash2) || !token.SameHash(hash, hash) {
		t.Error("SameHash accepts different or empty hashes")
	}
}

func TestNewKeyRefusesAShortOne(t *testing.T) {
	if _, err := token.NewKey(strings.Repeat("k", 31)); err == nil {
		t.Error("a key of 31 bytes is accepted")
	}
}

func TestTokenCheck(t *testing.T) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci-bot@example.com")
	for _, tt := range []struct {
		name string
		harm func(*token.Token)
		want []string
	}{
		{"no name", func(k *token.Token) { k.Name = "" }, []string{"name"}},
		{"a name that could break a log line", func(k *token.Token) { k.Name = "a\nb" }, []string{"name"}},
		{"a tier that does not exist", func(k *token.Token) { k.Tiers = []string{"root"} }, []string{`tier "root"`}},
		{"an empty server", func(k *token.Token) { k.Servers = []string{""} }, []string{"servers"}},
		{"longer than a year", func(k *token.Token) { k.ExpiresAt = k.CreatedAt.Add(token.MaxLife + time.Second) }, []string{"365 days"}},
		{"ended before it began", func(k *token.Token) { k.ExpiresAt = k.CreatedAt }, []string{"expires"}},
		{"made by nobody", func(k *token.Token) { k.CreatedBy = "" }, []string{"created_by"}},
		{"two faults", func(k *token.Token) { k.Name, k.Toolsets = "", []string{""} }, []string{"name", "toolsets"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := tok
			tt.harm(&bad)
			err := bad.Check()
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Check = %v, want it to name %q", err, want)
				}
			}
		})
	}
}

func TestTokenLive(t *testing.T) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	end := tok.ExpiresAt
	if !tok.Live(end.Add(-time.Nanosecond)) || tok.Live(end) {
		t.Error("want a token valid until its end, and no longer")
	}
	revoked := tok.Revoke("sam", tok.CreatedAt).Revoke("kim", tok.CreatedAt.Add(time.Minute))
	if revoked.Live(tok.CreatedAt) || revoked.RevokedBy != "sam" {
		t.Errorf("revoked twice: live %v, by %q", revoked.Live(tok.CreatedAt), revoked.RevokedBy)
	}
}

func TestTokenUntouched(t *testing.T) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	now := tok.CreatedAt
	if !tok.Untouched(now) {
		t.Error("the first use is not written")
	}
	tok.LastUsed = now
	if tok.Untouched(now.Add(time.Hour-time.Nanosecond)) || !tok.Untouched(now.Add(time.Hour)) {
		t.Error("want one write an hour")
	}
}
