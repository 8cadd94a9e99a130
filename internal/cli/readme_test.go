//go:build unix

package cli

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The expected output of each shell block of the README's first minute, in order.
var firstMinute = []string{
	"portcullis is ready",
	`\"name\":\"tickets:assign_ticket\",\"description\":\"Assign a ticket to a person.\",\"status\":\"pending_approval\"`,
	`\"state\":\"open\",\"request\":\"R-`,
	", approved\n",
	`"confirm":{"request":"R-`,
}

// The test runs the README's first minute unchanged, except for port and folder, at a terminal. A
// person answers yes to each question.
func TestReadmeFirstMinute(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.OK(t, err)
	addr := local.Addr(t)
	tty, shown := local.Terminal(t, "y\n")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != len(firstMinute) || strings.TrimSpace(blocks[0][1]) != "make run" {
		t.Fatalf("the README has %d shell blocks, want %d of which the first is make run", len(blocks), len(firstMinute))
	}
	dir := t.TempDir()
	begin(t, "make run DIR="+dir+" ADDR="+addr, firstMinute[0])
	const end = "\n---- end of block ----\n"
	script := ""
	for _, b := range blocks[1:] { // in one shell, as a reader does
		script += b[1] + "printf '" + strings.ReplaceAll(end, "\n", `\n`) + "'\n"
	}
	script = strings.NewReplacer("127.0.0.1:8080", addr, "cd .portcullis/demo", "cd "+dir,
		// the next command uses its id
		"portcullis requests\n", "portcullis requests | tee listed\n",
		"R-7KQ2M4XD", "$(grep -o 'R-[0-9A-Z]*' listed)").Replace(script)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = filepath.Join("..", "..")
	bin := t.TempDir()
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Stdin, cmd.Stderr = tty, tty
	out, err := cmd.Output()
	printed := strings.Split(string(out), end)
	if err != nil || len(printed) != len(blocks) {
		t.Fatalf("the README's commands end with %v:\n%s\n%s", err, out, shown())
	}
	if asked := shown(); !strings.Contains(asked, "{+") || !strings.Contains(asked, "Approve this definition, for all agents? [y/N]") {
		t.Errorf("approve does not show the change, or does not ask:\n%s", asked)
	}
	for i, want := range firstMinute[1:] {
		if !strings.Contains(printed[i], want) {
			t.Errorf("%s\nprints no %s:\n%s", blocks[i+1][1], want, printed[i])
		}
	}
}

// begin starts a command in the top folder of the repository, and waits until it prints a text.
// When the test ends, begin ends the command with all its children.
func begin(t *testing.T, command, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = filepath.Join("..", "..")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	log := &local.Buffer{}
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	require.OK(t, err)
	require.OK(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("%s never printed %q:\n%s", command, text, log)
}
