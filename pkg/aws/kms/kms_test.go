package kms_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/pkg/aws/kms"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const about = "portcullis vault 1\ntable\nCRED#gateway\n0a1b"

// KMS returns a data key only for the place for which it was wrapped.
func TestEmulator(t *testing.T) {
	c := emulator.Config(emulator.Start(t))
	var made struct{ KeyMetadata struct{ Arn string } }
	require.OK(
		t,
		awsjson.New(c, "kms").Call(t.Context(), "TrentService.CreateKey", struct{}{}, &made),
	)
	k := kms.New(c, made.KeyMetadata.Arn)
	data := []byte(strings.Repeat("k", 32))
	wrapped, err := k.Wrap(t.Context(), data, about)
	require.OK(t, err)
	if strings.Contains(string(wrapped), string(data)) {
		t.Error("the wrapped key contains the key")
	}
	got, err := k.Unwrap(t.Context(), wrapped, about)
	if err != nil || string(got) != string(data) {
		t.Errorf("unwrapped %q, %v", got, err)
	}
	if got, err := k.Unwrap(t.Context(), wrapped, strings.Replace(about, "table", "copy", 1)); !errors.Is(
		err,
		connection.ErrForeign,
	) ||
		got != nil {
		t.Errorf("Unwrap in another table: %q, %v", got, err)
	}
	if _, err := k.Unwrap(t.Context(), []byte("not from KMS"), about); !errors.Is(
		err,
		connection.ErrForeign,
	) {
		t.Errorf("Unwrap of a text that is not from KMS: %v", err)
	}
}

// Each request names the key and the place. Only an answer about the text itself means that the
// text is foreign, because a denied or disabled key may work again.
func TestRequestsAndErrors(t *testing.T) {
	code, requests := "", []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in struct {
			KeyId             string
			EncryptionContext map[string]string
		}
		_ = json.Unmarshal(body, &in)
		requests = append(
			requests,
			fmt.Sprint(r.Header.Get("X-Amz-Target"), " ", in.KeyId, " ", in.EncryptionContext),
		)
		if code != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":%q}`, code)
			return
		}
		fmt.Fprint(w, `{"CiphertextBlob":"d3JhcHBlZA==","Plaintext":"cGxhaW4="}`)
	}))
	t.Cleanup(server.Close)
	k := kms.New(
		sdk.Config{
			Region:           "eu-central-1",
			BaseEndpoint:     &server.URL,
			RetryMaxAttempts: 1,
			Credentials:      sdk.AnonymousCredentials{},
		},
		"alias/vault",
	)
	wrapped, err := k.Wrap(t.Context(), []byte("plain"), about)
	if err != nil || string(wrapped) != "wrapped" {
		t.Errorf("%q, %v", wrapped, err)
	}
	plain, err := k.Unwrap(t.Context(), wrapped, about)
	if err != nil || string(plain) != "plain" {
		t.Errorf("%q, %v", plain, err)
	}
	for i, operation := range []string{"Encrypt", "Decrypt"} {
		want := "TrentService." + operation + " alias/vault map[place:portcullis vault 1/table/CRED#gateway/0a1b]"
		if requests[i] != want {
			t.Errorf("request %q, want %q", requests[i], want)
		}
	}
	for c, foreign := range map[string]bool{
		"InvalidCiphertextException": true, "IncorrectKeyException": true,
		"AccessDeniedException": false, "DisabledException": false, "KMSInvalidStateException": false, "NotFoundException": false,
	} {
		code = c
		if _, err := k.Unwrap(t.Context(), wrapped, about); err == nil ||
			errors.Is(err, connection.ErrForeign) != foreign {
			t.Errorf("%s: %v", c, err)
		}
		if _, err := k.Wrap(t.Context(), plain, about); err == nil ||
			errors.Is(err, connection.ErrForeign) {
			t.Errorf("%s of Encrypt: %v", c, err)
		}
	}
}
