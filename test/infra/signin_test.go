package infra

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// checkSignIn signs in to a second server at the deployed functions. The functions find the key by
// its alias, and share the connection. At the end, the config has only the first server again.
func (s *stack) checkSignIn(mail string) {
	s.t.Helper()
	var key struct {
		KeyMetadata struct{ Enabled bool }
	}
	kms := awsjson.New(emulator.Config(s.endpoint), "kms")
	require.OK(
		s.t,
		kms.Call(
			s.t.Context(),
			"TrentService.DescribeKey",
			map[string]string{"KeyId": "alias/" + s.name + "-sign-in"},
			&key,
		),
	)
	if !key.KeyMetadata.Enabled {
		s.t.Error("the key is not enabled")
	}
	issuer := issuertest.New(s.t, issuertest.Habits{})
	files := upstreamtest.New(s.t, upstreamtest.Options{
		Front: issuer.Front(
			"read",
		), Tools: []json.RawMessage{upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)},
	})
	dir := s.folder(mail)
	path := filepath.Join(dir, "config", "mcp_config.json")
	data, err := os.ReadFile(path)
	require.OK(s.t, err)
	both := strings.Replace(string(data), `"mail":`, `"files":{"url":"`+files.URL+`"},"mail":`, 1)
	require.OK(s.t, os.WriteFile(path, []byte(both), 0o600))
	s.make("push-config", "DIR="+dir, "BUCKET="+s.outputs["BucketName"])
	var server struct {
		Outcome struct{ Reason string }
	}
	local.Until(s.t, "the server demands a sign-in", func() bool {
		a := s.Send("/admin/servers/files", "")
		_ = json.Unmarshal([]byte(a.Body), &server)
		return server.Outcome.Reason == "sign_in_required"
	})
	var start struct{ URL, State string }
	s.Ask(
		200,
		"/admin/servers/files/sign-in",
		`{"redirect":"http://127.0.0.1:4711/callback"}`,
		&start,
	)
	finish, err := json.Marshal(
		map[string]string{"state": start.State, "query": issuertest.Query(s.t, start.URL)},
	)
	require.OK(s.t, err)
	var done struct {
		Connection struct{ Status string }
	}
	s.Ask(200, "/admin/sign-in", string(finish), &done)
	if done.Connection.Status != "connected" {
		s.t.Errorf("the connection is %q", done.Connection.Status)
	}
	local.Until(s.t, "the sync function loads the server", func() bool { return s.synced() == 3 })
	agent := s.client(s.t.Context())
	defer agent.Close()
	call := map[string]any{"name": "files:get_file", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", call); refused || text != "get_file" {
		s.t.Errorf("call of the server: %s", text)
	}
	s.make("push-config", "DIR="+s.folder(mail), "BUCKET="+s.outputs["BucketName"])
	local.Until(s.t, "the first config is in use again", func() bool { return s.synced() == 2 })
}
