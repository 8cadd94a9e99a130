package localstack

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestComposeFileIsPinnedAndListensOnLoopbackOnly(t *testing.T) {
	data, err := os.ReadFile(home + "/compose.yaml")
	require.OK(t, err)
	text := string(data)
	if images := regexp.MustCompile(`(?m)^\s+image: (.*)$`).FindAllStringSubmatch(text, -1); len(images) != 1 || images[0][1] != "localstack/localstack:4.14.0" {
		t.Errorf("images %q, want only localstack/localstack:4.14.0", images)
	}
	_, ports, _ := strings.Cut(text, "ports:\n")
	ports, _, _ = strings.Cut(ports, "networks:")
	published := strings.Fields(strings.ReplaceAll(ports, "- ", ""))
	if len(published) == 0 {
		t.Error("no port is published")
	}
	for _, port := range published {
		if !strings.HasPrefix(port, `"127.0.0.1:`) {
			t.Errorf("port %s is not only on loopback", port)
		}
	}
	if strings.Contains(text, "network_mode") || strings.Contains(text, "docker.sock") {
		t.Error("the container joins the host's network or has its Docker socket")
	}
	mounted := regexp.MustCompile(`(?m)^\s+- (\.[^:]*):`).FindAllStringSubmatch(text, -1)
	if len(mounted) != 3 {
		t.Errorf("mounted are %q, want hooks, template and example", mounted)
	}
	for _, m := range mounted {
		if _, err := os.Stat(filepath.Join(home, m[1])); err != nil {
			t.Error(err)
		}
	}
}

// A background runs an emulator for the scripts, separate from the developer's emulator.
type background struct {
	env   []string
	port  int
	state string // folder of its process id
}

func newBackground(t *testing.T) background {
	t.Helper()
	beside(t, "PORTCULLIS_MINISTACK", "python")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.OK(t, err)
	defer l.Close()
	b := background{port: l.Addr().(*net.TCPAddr).Port, state: t.TempDir()}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "MAKE") {
			b.env = append(b.env, v)
		}
	}
	b.env = append(b.env, "PORTCULLIS_LOCAL_STATE="+b.state, "PORTCULLIS_LOCAL_PORT="+strconv.Itoa(b.port),
		"DOCKER_HOST=unix:///nonexistent") // otherwise the script would use a Docker daemon
	return b
}

// run runs one of the scripts and returns its standard output and its standard error.
func (b background) run(t *testing.T, script string, args ...string) (out, said string, err error) {
	t.Helper()
	cmd := exec.Command("./"+script, args...)
	cmd.Dir = home
	cmd.Env = b.env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func TestUpStartsMiniStackWithoutDockerAndDownEndsIt(t *testing.T) {
	b := newBackground(t)
	t.Cleanup(func() { _, _, _ = b.run(t, "down") })
	out, said, err := b.run(t, "up")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	endpoint := "http://127.0.0.1:" + strconv.Itoa(b.port)
	for _, want := range []string{"export AWS_ENDPOINT_URL=" + endpoint + " ", "PORTCULLIS_BUCKET=portcullis-data", "PORTCULLIS_TABLE=portcullis\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("up prints %q without %q", out, want)
		}
	}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "export ") {
			t.Errorf("up prints %q, which a shell must not evaluate", line)
		}
	}
	if !strings.Contains(said, "starting MiniStack") {
		t.Errorf("up does not name what it starts: %q", said)
	}
	at(endpoint).check(t)

	if again, said, err := b.run(t, "up"); err != nil || again != out || !strings.Contains(said, "runs already") {
		t.Errorf("a second up prints %q and says %q (%v)", again, said, err)
	}
	if _, said, err := b.run(t, "down"); err != nil {
		t.Errorf("down: %v\n%s", err, said)
	}
	if answer, err := http.Get(endpoint + "/_ministack/health"); err == nil {
		answer.Body.Close()
		t.Errorf("after down %s still answers", endpoint)
	}
	if _, said, err := b.run(t, "ministack", "endpoint"); err == nil || !strings.Contains(said, "make local-up") {
		t.Errorf("the script still prints the endpoint after down: %q", said)
	}
}

func TestStartLeavesAPortThatIsTaken(t *testing.T) {
	b := newBackground(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", b.port))
	require.OK(t, err)
	defer l.Close()
	t.Cleanup(func() { _, _, _ = b.run(t, "ministack", "stop") })
	out, said, err := b.run(t, "ministack", "start")
	if err != nil || !strings.HasPrefix(out, "http://127.0.0.1:") || strings.Contains(out, strconv.Itoa(b.port)) {
		t.Errorf("port %d is in use, but up prints %q (%v):\n%s", b.port, out, err, said)
	}
}

// The recorded process may have ended, and another process may now have its id. down must not end
// that process.
func TestDownLeavesOtherProcesses(t *testing.T) {
	b := newBackground(t)
	other := exec.Command("sleep", "60")
	require.OK(t, other.Start())
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	require.OK(t, os.WriteFile(filepath.Join(b.state, "ministack.pid"), []byte(strconv.Itoa(other.Process.Pid)), 0o644))
	if _, said, err := b.run(t, "down"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	var status syscall.WaitStatus
	if ended, err := syscall.Wait4(other.Process.Pid, &status, syscall.WNOHANG, nil); ended != 0 || err != nil {
		t.Errorf("down ended another process: %v (%v)", status, err)
	}
}

func TestUpRefusesAnEmulatorThatDoesNotAnswer(t *testing.T) {
	b := newBackground(t)
	b.env = append(b.env, "AWS_ENDPOINT_URL=http://127.0.0.1:"+strconv.Itoa(b.port))
	out, said, err := b.run(t, "up")
	if err == nil || out != "" || !strings.Contains(said, "nothing answers at AWS_ENDPOINT_URL") {
		t.Errorf("up prints %q and says %q (%v)", out, said, err)
	}
}

func TestSamLocalIsToldRoutesAndEndpoint(t *testing.T) {
	python := beside(t, "PORTCULLIS_SAM", "python")
	dir := t.TempDir()
	require.OK(t, os.CopyFS(filepath.Join(dir, "infra"), os.DirFS(filepath.Join("..", "..", "infra"))))
	local := filepath.Join(dir, "local.yaml")
	if out, err := exec.CommandContext(t.Context(), python, home+"/local_template.py", filepath.Join("..", "..", "template.yaml"), local).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "sam_local.py"), local, home+"/env.json").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `route /.well-known/{proxy+} McpFunction 2.0
route /admin AdminFunction 2.0
route /admin/{proxy+} AdminFunction 2.0
route /healthz McpFunction 2.0
route /mcp McpFunction 2.0
route /mcp/{proxy+} McpFunction 2.0
function AdminFunction none portcullis-data portcullis http://localstack:4566
function AssembleFunction none portcullis-data portcullis http://localstack:4566
function HookFunction none portcullis-data portcullis http://localstack:4566
function McpFunction none portcullis-data portcullis http://localstack:4566
function SyncFunction none portcullis-data portcullis http://localstack:4566
function WorkFunction none portcullis-data portcullis http://localstack:4566
`
	if string(out) != want {
		t.Errorf("sam local sees\n%swant\n%s", out, want)
	}
}

func TestSamSaysWhatNeedsDocker(t *testing.T) {
	b := newBackground(t)
	if _, said, err := b.run(t, "sam", "start-api"); err == nil || !strings.Contains(said, "no Docker daemon answers") || !strings.Contains(said, "make local-deploy") {
		t.Errorf("start-api says %q (%v)", said, err)
	}
	const want = "SyncFunction events/schedule.json events/eventbridge-catalog.json\nMcpFunction events/http/tools-list.json\n"
	out, said, err := b.run(t, "sam", "functions", "events/http/tools-list.json", "events/schedule.json", "events/eventbridge-catalog.json")
	if err != nil || out != want {
		t.Errorf("the functions of events are %q (%s, %v), want %q", out, said, err, want)
	}
	if _, said, err := b.run(t, "sam", "invoke", "events/none.json"); err == nil || !strings.Contains(said, "use start-api, or invoke or functions") {
		t.Errorf("invoke of an event that is not there says %q (%v)", said, err)
	}
}
