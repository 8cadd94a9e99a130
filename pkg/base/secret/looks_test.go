package secret

import (
	"slices"
	"testing"
)

func TestLooks(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"Authorization", "hunter2", true},
		{"X-Api-Key", "hunter2", true},
		{"--token", "hunter2", true},
		{"--client-secret", "hunter2", true},
		{"--password", "hunter2", true},
		{"--passwd", "hunter2", true},
		{"--pwd", "hunter2", true},
		{"--pass", "hunter2", true},
		{"dbPass", "hunter2", true},
		{"passphrase", "hunter2", true},
		{"Cookie", "hunter2", true},
		{"credentials", "hunter2", true},
		{"--session", "hunter2", true},
		{"SESSION_ID", "hunter2", true},
		{"--signature", "hunter2", true},
		{"sig", "hunter2", true},
		{"GITHUB_PAT", "hunter2", true},
		{"DATABASE_DSN", "hunter2", true},
		{"VAULT_SECRET_ID", "hunter2", true},
		{"--password", "1234", true},
		{"PASS", "123456", true},

		{"--passthrough", "hunter2", false},
		{"--compass", "hunter2", false},
		{"--signal", "hunter2", false},
		{"PATH", "/usr/bin", false},
		{"CLIENT_ID", "hunter2", false},
		{"AWS_ACCESS_KEY_ID", "hunter2", false},
		{"AUTH_URL", "https://a.example.com", false},
		{"SSH_KEY_FILE", "/home/kim/id", false},
		{"--auth-type", "kerberos", false},
		{"MAX_TOKENS", "4096", false},
		{"--auth", "true", false},
		{"--token", "", false},
		{"Authorization", "Bearer ", false},

		{"-p", "hunter22", true},
		{"-p", "hunter2", false},
		{"-p", "31415926", false},
		{"-p", "3.1415926", false},
		{"-p", "127.0.0.1:8080:80", false},
		{"-p", "@scope/package", false},
		{"-p", "./project/folder", false},
		{"-k", "hunter22", true},
		{"-t", "hunter22", true},
		{"-t", "streamable-http", false},
		{"-y", "a-package-of-some-length", false},
		{"-m", "mcp_server_time", false},
		{"-e", "GITHUB_PERSONAL_ACCESS_TOKEN", false},

		{"", "ghp_madeup", true},
		{"", "sk_live_0123456789abcdef", true},
		{"", "Bearer hunter2", true},
		{"", "9f86d081884c7d659a2feaa0c55ad015", true},
		{"", "3f9c2b1a-7d4e-4c9b-a1f2-8e5d6c7b9a01", true},
		{"project-id", "3f9c2b1a-7d4e-4c9b-a1f2-8e5d6c7b9a01", false},
		{"", "abcdefghijklmnopqrs1+tuv", true},
		{"", "mcp-server-kubernetes-v2", false},
		{"", "claude-3-5-sonnet-20241022", false},
		{"", "gpt-4o-mini-2024-07-18", false},
		{"", "global-mcp-server", false},
		{"", "@modelcontextprotocol/server-filesystem", false},
		{"", "two words", false},
		{"", "", false},
	} {
		if got := Looks(tt.name, tt.value); got != tt.want {
			t.Errorf("Looks(%q, %q) = %v", tt.name, tt.value, got)
		}
	}
}

func TestInArgs(t *testing.T) {
	for _, tt := range []struct{ args, want []string }{
		{[]string{"--passwd", "hunter2"}, []string{"", "hunter2"}},
		{[]string{"--pwd=hunter2", "-v"}, []string{"hunter2", ""}},
		{[]string{"--session", "hunter2", "x"}, []string{"", "hunter2", ""}},
		{[]string{"--signature=hunter2"}, []string{"hunter2"}},
		{[]string{"-p", "hunter22"}, []string{"", "hunter22"}},
		{[]string{"-p=hunter22"}, []string{"hunter22"}},
		{[]string{"-p9f86d081884c7d659a2feaa0"}, []string{"9f86d081884c7d659a2feaa0"}},
		{[]string{"-p", "8080"}, []string{"", ""}},
		{[]string{"-y", "-p", "@scope/package"}, []string{"", "", ""}},
		{[]string{"--auth", "--verbose", "x"}, []string{"", "", ""}},
		{[]string{"--token", "-9f86d081884c7d659a2feaa0"}, []string{"", "-9f86d081884c7d659a2feaa0"}},
		{[]string{"--env", "TOKEN=hunter2"}, []string{"", "hunter2"}},
		{[]string{"--env=TOKEN=hunter2"}, []string{"hunter2"}},
		{[]string{"--header", "Authorization: Bearer hunter2"}, []string{"", "hunter2"}},
		{[]string{"--header=X-Api-Key:hunter2"}, []string{"hunter2"}},
		{[]string{"-H", "X-Api-Key:hunter2"}, []string{"", "hunter2"}},
		{[]string{"run", "keycloak:latest"}, []string{"", ""}},
		{[]string{"host=db password=hunter2"}, []string{"hunter2"}},
		{[]string{"-c", `exec x --token "hunter2" -H 'Cookie: hunter3'`}, []string{"", "hunter2 hunter3"}},
		{[]string{"-c", `exec x --token "$TOKEN"`}, []string{"", ""}},
		{[]string{"https://h.example/p?token=hunter2"}, []string{""}},
	} {
		var got []string
		for _, found := range InArgs(tt.args) {
			all := ""
			for i, f := range found {
				if i > 0 {
					all += " "
				}
				all += f
			}
			got = append(got, all)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("InArgs(%q) = %q, want %q", tt.args, got, tt.want)
		}
	}
}
