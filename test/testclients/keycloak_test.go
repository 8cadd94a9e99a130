package testclients

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A keycloak is a running Keycloak with a realm, which is the issuer.
type keycloak struct {
	t     *testing.T
	url   string
	admin string // access token
}

const (
	realm    = "gate"
	password = "a password for tests"
)

// The gateway signs in at Keycloak as two people. Keycloak rotates refresh tokens. A realm of it
// needs the settings that docs/sign-in.md names.
func TestKeycloak(t *testing.T) {
	if lanes != "full" {
		t.Skip("make lanes without SMALL runs it")
	}
	k := startKeycloak(t)
	issuer := k.url + "/realms/" + realm
	server := signedBy(t, issuer, func(resource, token string) (*auth.TokenInfo, error) {
		at := issuer + "/protocol/openid-connect/token/introspect"
		form := url.Values{"token": {token}, "client_id": {resource}, "client_secret": {password}}
		return lookUp(at, form, resource)
	})
	k.createRealm(server)
	trySignIn(
		t, map[string]string{"one": server, "two": server},
		map[string]string{"one": "kim", "two": "lee"}, openKeycloak,
	)
}

// startKeycloak starts Keycloak on loopback until the test ends.
func startKeycloak(t *testing.T) *keycloak {
	t.Helper()
	home := os.Getenv("PORTCULLIS_KEYCLOAK")
	script := filepath.Join(home, "bin", "kc.sh")
	if _, err := os.Stat(script); home == "" || err != nil {
		local.Missing(t, "Keycloak is not installed: make keycloak, which needs Maven")
	}
	if _, err := exec.LookPath("java"); err != nil {
		local.Missing(t, "Keycloak needs Java 17 or newer, and there is no java")
	}
	addr := local.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(
		t.Context(), "bash", script, "start-dev", "--db=dev-mem", "--http-host=127.0.0.1",
		"--http-port="+port, "--log-level=warn",
	)
	cmd.Env = append(
		os.Environ(), "KC_BOOTSTRAP_ADMIN_USERNAME=admin", "KC_BOOTSTRAP_ADMIN_PASSWORD="+password,
		"JAVA_OPTS_KC_HEAP=-Xmx512m",
	)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the script has a child
	require.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	k := &keycloak{t: t, url: "http://" + addr}
	for !local.WaitFor(func() bool { return k.signIn() || len(ended) > 0 }) {
		t.Log("Keycloak is still starting") // it needs a minute of processor time
	}
	if len(ended) > 0 {
		t.Fatalf("Keycloak has ended: %v", <-ended)
	}
	return k
}

// signIn gets a token of the administrator, and reports whether it has one.
func (k *keycloak) signIn() bool {
	resp, err := http.PostForm(k.url+"/realms/master/protocol/openid-connect/token", url.Values{
		"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {"admin"},
		"password": {password},
	})
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct {
		Token string `json:"access_token"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&got)
	k.admin = got.Token
	return k.admin != ""
}

// do sends a request to the admin API, and returns the answer.
func (k *keycloak) do(method, path string, body any) []byte {
	k.t.Helper()
	k.signIn() // a token lives for a minute
	data, err := json.Marshal(body)
	require.OK(k.t, err)
	r, err := http.NewRequestWithContext(
		k.t.Context(), method, k.url+"/admin/realms"+path, bytes.NewReader(data),
	)
	require.OK(k.t, err)
	r.Header.Set("Authorization", "Bearer "+k.admin)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.OK(k.t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.OK(k.t, err)
	if resp.StatusCode/100 != 2 {
		k.t.Fatalf("%s %s: %s %s", method, path, resp.Status, answer)
	}
	return answer
}

type object = map[string]any

// createRealm creates a realm for a server, as docs/sign-in.md says.
func (k *keycloak) createRealm(server string) {
	k.t.Helper()
	var users []object
	for _, name := range []string{"kim", "lee"} {
		users = append(users, object{
			"username": name, "enabled": true, "email": name + "@example.com",
			"firstName": name, "lastName": name, "emailVerified": true,
			"realmRoles":  []string{"default-roles-" + realm},
			"credentials": []object{{"type": "password", "value": password, "temporary": false}},
		})
	}
	k.do(http.MethodPost, "", object{
		"realm": realm, "enabled": true, "accessTokenLifespan": tokenLife,
		"revokeRefreshToken": true, "refreshTokenMaxReuse": 0,
		"users": users,
		"clients": []object{{
			"clientId": server, "secret": password, "publicClient": false,
			"standardFlowEnabled": false,
		}},
	})
	k.do(http.MethodPost, "/"+realm+"/client-scopes", object{
		"id": "read", "name": "read", "protocol": "openid-connect",
		"attributes": object{"include.in.token.scope": "true"},
		"protocolMappers": []object{{
			"name": "the server", "protocol": "openid-connect",
			"protocolMapper": "oidc-audience-mapper",
			"config":         object{"included.client.audience": server, "access.token.claim": "true"},
		}},
	})
	k.do(http.MethodPut, "/"+realm+"/default-optional-client-scopes/read", object{})
	policies := require.JSON[[]object](k.t, k.do(http.MethodGet, "/"+realm+"/components?type="+
		"org.keycloak.services.clientregistration.policy.ClientRegistrationPolicy", nil))
	for _, p := range policies {
		if p["providerId"] == "trusted-hosts" {
			p["config"].(object)["trusted-hosts"] = []string{"127.0.0.1"}
			k.do(http.MethodPut, "/"+realm+"/components/"+p["id"].(string), p)
		}
	}
}

var (
	formAction = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)
	hiddenCode = regexp.MustCompile(`name="code" value="([^"]*)"`)
)

// openKeycloak is a [browser] that fills in the forms of Keycloak: the sign-in and the consent.
func openKeycloak(t *testing.T, address, callback, person string) (query string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.OK(t, err)
	b := http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), callback+"?") {
			query = r.URL.RawQuery
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := b.Get(address)
	require.OK(t, err)
	for forms := 0; query == "" && forms < 3; forms++ {
		page, err := io.ReadAll(resp.Body)
		require.OK(t, err)
		_ = resp.Body.Close()
		action := formAction.FindSubmatch(page)
		if action == nil {
			t.Fatalf("Keycloak answers %s without a form:\n%s", resp.Status, page)
		}
		fields := url.Values{"username": {person}, "password": {password}}
		if code := hiddenCode.FindSubmatch(page); code != nil {
			fields = url.Values{"code": {string(code[1])}, "accept": {"Yes"}}
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(string(action[1])))
		require.OK(t, err)
		resp, err = b.PostForm(to.String(), fields)
		require.OK(t, err)
	}
	_ = resp.Body.Close()
	return query
}
