package main

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

// What each shell block of the README's first minute must print, in order.
var firstMinute = []string{
	"portcullis is ready",
	`\"name\":\"tickets:assign_ticket\",\"server\":\"tickets\",\"description\":\"Assign a ticket to a person.\",\"status\":\"pending_approval\"`,
	`"isError":true,"_meta":{"dev.portcullis/lock":{"name":"tickets:assign_ticket","status":"pending_approval"`,
	`"state":"approved"`,
	`\"assignee\":\"kim\"`,
}

// The README's first minute is run as it stands, on another port and folder.
func TestReadmeFirstMinute(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.OK(t, err)
	addr := local.Addr(t)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != len(firstMinute) || strings.TrimSpace(blocks[0][1]) != "make run" {
		t.Fatalf("the README has %d shell blocks, want %d of which the first is make run", len(blocks), len(firstMinute))
	}
	dir := t.TempDir()
	begin(t, "make run DIR="+dir+" ADDR="+addr, firstMinute[0])
	for i, b := range blocks[1:] {
		script := strings.NewReplacer("127.0.0.1:8080", addr, ".portcullis/demo", dir).Replace(b[1])
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), firstMinute[i+1]) {
			t.Fatalf("%s\nprints no %s (%v):\n%s", script, firstMinute[i+1], err, out)
		}
	}
}

// begin starts a command at the top of the repo, waits until it prints a text,
// and ends it, with all that it started, when the test ends.
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
