package secrets_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/secrets"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A vault simulates Secrets Manager and the parameter store with one secret. Each value is
// identified by its day. After next reads, a new value replaces the current value; 0: never.
type vault struct {
	days   []int // of the values; the current one is last
	next   int
	reads  int
	denied bool
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.reads++
	var in struct{ VersionStage, Name string }
	_ = json.NewDecoder(r.Body).Decode(&in) // a missing member is empty
	answer := func(back int) {
		n := len(v.days) - 1 - back
		if n < 0 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"ResourceNotFoundException"}`)
			return
		}
		at := time.Date(2026, 11, v.days[n], 0, 0, 0, 0, time.UTC).Unix()
		fmt.Fprintf(w, `{"SecretString":"day %d","CreatedDate":%d,"Parameter":{"Value":"day %d","LastModifiedDate":%d,"Version":%d}}`, v.days[n], at, v.days[n], at, n+1)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_, number, numbered := strings.Cut(in.Name, ":")
	switch {
	case v.denied:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException"}`)
	case numbered:
		answer(len(v.days) - int(number[0]-'0'))
	case in.VersionStage == "AWSPREVIOUS":
		answer(1)
	default:
		answer(0)
	}
	if v.reads == v.next {
		v.days = append(v.days, v.days[len(v.days)-1]+1)
	}
}

func TestVersions(t *testing.T) {
	for _, kind := range []string{"secretsmanager:token", "ssm:/token"} {
		for _, tt := range []struct {
			name              string
			vault             vault
			current, previous string
		}{
			{"never replaced", vault{days: []int{1}}, "day 1", ""},
			{"replaced", vault{days: []int{1, 2}}, "day 2", "day 1"},
			{"replaced twice", vault{days: []int{1, 2, 3}}, "day 3", "day 2"},
			{"replaced between the two reads", vault{days: []int{1, 2}, next: 1}, "day 2", ""},
		} {
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				v := tt.vault
				server := httptest.NewServer(&v)
				t.Cleanup(server.Close)
				s := secrets.New(sdk.Config{Region: "eu-central-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1, Credentials: sdk.AnonymousCredentials{}})
				got, err := s.Versions(t.Context(), kind)
				require.OK(t, err)
				if got.Current.Text.Reveal() != tt.current || got.Current.Since.IsZero() || tt.previous != "" && got.Previous.Text.Reveal() != tt.previous {
					t.Errorf("%q since %v, and %q", got.Current.Text.Reveal(), got.Current.Since, got.Previous.Text.Reveal())
				}
				if tt.vault.next > 0 && got.Previous.Text.Reveal() == "" {
					t.Error("Versions returns no previous value")
				}
				v.denied = true
				if got, err := s.Versions(t.Context(), kind); err == nil || got != (secret.Versions{}) {
					t.Errorf("with a service that refuses: %v", err)
				}
			})
		}
	}
}
