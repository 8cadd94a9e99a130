// Package stdiotest provides MCP servers on standard input and output, correct and faulty. A server
// is another process of the test's own binary.
//
//	func TestMain(m *testing.M) { stdiotest.Main(); os.Exit(m.Run()) }
//
//	path, env := stdiotest.Program(t, "legacy")
package stdiotest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// variable is the environment variable that makes the binary a server. Its value is the kind.
const variable = "STDIOTEST_SERVER"

// The kinds of servers. Each lists all [Tools].
const (
	Legacy   = "legacy"   // of the handshake protocol; refuses server/discover
	Modern   = "modern"   // of the stateless protocol; refuses initialize
	Slow     = "slow"     // of the stateless protocol; it waits a second before it reads
	Late     = "late"     // of the handshake protocol; reads after the file LATE_UNTIL exists
	Silent   = "silent"   // of the handshake protocol; does not answer unknown requests
	Strict   = "strict"   // of the handshake protocol; ends if the first request is not initialize
	Mute     = "mute"     // answers nothing
	Deaf     = "deaf"     // does not read its input
	Broken   = "broken"   // ends immediately, with an error message
	Stubborn = "stubborn" // of the handshake protocol; ignores the end of its input and SIGTERM
)

// Program returns the path and the environment that start a server of a kind.
func Program(t testing.TB, kind string) (path string, env map[string]string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path, map[string]string{variable: kind}
}

// Main runs the server and does not return, if the environment of this process names a kind.
func Main() {
	kind := os.Getenv(variable)
	if kind == "" {
		return
	}
	s := &server{kind: kind, out: os.Stdout, asked: map[string]chan json.RawMessage{}}
	switch kind {
	case Broken:
		fmt.Fprintln(os.Stderr, "Error: API_KEY is required")
		os.Exit(3)
	case Slow:
		s.write(`{"jsonrpc":"2.0","id":"early","method":"roots/list"}`) // before the first request
		time.Sleep(time.Second)
		s.kind = Modern
	case Late:
		fmt.Fprintln(os.Stderr, "npm http fetch GET 200 https://me:late-secret@registry.example/x")
		for {
			if _, err := os.Stat(os.Getenv("LATE_UNTIL")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	case Deaf:
		select {}
	case Stubborn:
		signal.Ignore(syscall.SIGTERM)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		s.take(slices.Clone(in.Bytes()))
	}
	if kind == Stubborn {
		select {}
	}
	os.Exit(0)
}

type server struct {
	kind  string
	calls sync.WaitGroup

	mu      sync.Mutex
	out     *os.File
	count   int
	started bool
	asked   map[string]chan json.RawMessage
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.WriteString(line + "\n")
}

func (s *server) reply(id json.RawMessage, result string) {
	s.write(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func (s *server) refuse(id json.RawMessage) {
	if s.kind != Silent {
		s.write(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// Tools contains the names of the tools that every server lists.
var Tools = []string{"ask", "big", "count", "die", "echo", "environment", "flood", "fork", "garbage", "progress", "wait"}

func (s *server) take(line []byte) {
	var m message
	if s.kind == Mute || json.Unmarshal(line, &m) != nil {
		return
	}
	first := !s.started
	s.started = true
	switch {
	case s.kind == Strict && first && m.Method != "initialize":
		fmt.Fprintln(os.Stderr, "expected initialize")
		os.Exit(1)
	case m.Method == "" && m.ID != nil:
		s.mu.Lock()
		waiting := s.asked[string(m.ID)]
		s.mu.Unlock()
		if waiting != nil {
			waiting <- line
		}
	case m.Method == "initialize" && s.kind != Modern:
		s.reply(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stdiotest","version":"1"}}`)
	case m.Method == "server/discover" && s.kind == Modern:
		s.reply(m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"stdiotest","version":"1"},"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "tools/list":
		var tools []string
		for _, name := range Tools {
			tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":`+strconv.FormatBool(name != "die")+`}}`)
		}
		s.reply(m.ID, `{"resultType":"complete","tools":[`+strings.Join(tools, ",")+`]}`)
	case m.Method == "tools/call":
		s.calls.Go(func() { s.call(m) })
	case m.ID != nil:
		s.refuse(m.ID)
	}
}

// text replies with a result of one text block.
func (s *server) text(id json.RawMessage, text string) {
	quoted, _ := json.Marshal(text) // every string can be encoded
	s.reply(id, `{"resultType":"complete","content":[{"type":"text","text":`+string(quoted)+`}]}`)
}

func (s *server) call(m message) {
	var p struct {
		Name      string
		Arguments struct {
			Text string
			N    int
		}
		Meta struct {
			ProgressToken json.RawMessage
		} `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		s.refuse(m.ID)
		return
	}
	switch p.Name {
	case "echo": // with a number that does not fit a double, and an unknown member
		s.reply(m.ID, `{"resultType":"complete","content":[{"type":"text","text":"`+p.Arguments.Text+`"}],  "big":9007199254740993,"x":{"b":1,"a":2}}`)
	case "count":
		s.mu.Lock()
		s.count++
		n := s.count
		s.mu.Unlock()
		s.text(m.ID, fmt.Sprintf("%d of %d", n, os.Getpid()))
	case "environment":
		dir, _ := os.Getwd() // "" shows an error
		all := append(os.Environ(), "cwd="+dir, "args="+strings.Join(os.Args[1:], " "))
		s.text(m.ID, strings.Join(all, "\n"))
	case "wait":
		time.Sleep(time.Duration(p.Arguments.N) * time.Millisecond)
		s.text(m.ID, p.Arguments.Text)
	case "die":
		fmt.Fprintln(os.Stderr, p.Arguments.Text)
		os.Exit(7)
	case "big":
		s.text(m.ID, strings.Repeat("x", p.Arguments.N))
	case "garbage":
		s.write("Listening on port 3000\n\x00\xff{}\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":123456789,\"result\":{}}\n{\"jsonrpc\":\"2.0\"")
		s.text(m.ID, "after the garbage")
	case "flood":
		line := strings.Repeat("e", 1000) + "\n"
		for range p.Arguments.N {
			_, _ = os.Stderr.WriteString(line)
		}
		s.text(m.ID, "flooded")
	case "fork": // starts a program that keeps all three streams open
		c := exec.Command("sleep", "1000") // the program continues after the call
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			s.text(m.ID, err.Error())
			return
		}
		s.text(m.ID, strconv.Itoa(c.Process.Pid))
	case "progress":
		for i := range p.Arguments.N {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, p.Meta.ProgressToken, i))
		}
		s.text(m.ID, "done")
	case "change": // not listed
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.text(m.ID, "changed")
	case "ask":
		id := `"q` + string(m.ID) + `"`
		answer := make(chan json.RawMessage, 1)
		s.mu.Lock()
		s.asked[id] = answer
		s.mu.Unlock()
		s.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + p.Arguments.Text + `","params":{"message":"?"}}`)
		s.text(m.ID, string(<-answer))
	default:
		s.refuse(m.ID)
	}
}
